"""From a profile to a launch: command line, whole environment, files to write first; by SGLang's version, checked first."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import console
from console.engine import flags, speculation
from console.engine.secrets import is_secret_name, mask_argv, mask_environment
from console.errors import ConsoleError, ExitCode
from profiles.schema import EngineSection, Profile

PROBE_SINCE = (0, 5, 11)
PROBE_FOLDER = Path(console.__file__).parent / "probe"
PROBE_DIR_VARIABLE = "SGLANG_CONSOLE_PROBE_DIR"
DEVICE_TIMER_VARIABLE = "SGLANG_ENABLE_METRICS_DEVICE_TIMER"
ADAPTIVE_FILE = "adaptive.json"
SECRETS_FILE = "engine-secrets.yaml"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
KEY_FILE_LIMIT_BYTES = 64 * 1024
SHOWN_ENVIRONMENT = (
    "SGLANG_",
    "NCCL_",
    "CUDA_",
    "TORCH_",
    "PYTORCH_",
    "PYTHONPATH",
    "HF_",
    "OMP_",
    "TRTLLM_",
    "FLASHINFER_",
)


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything needed to start an engine."""

    argv: tuple[str, ...]
    env: dict[str, str]
    """The whole environment: inherited, then the profile's ``unset`` and ``set``, then what the console adds."""
    files: dict[Path, str] = field(default_factory=dict)
    """To be written before the start, readable by the owner only: :func:`write_files`."""
    warnings: tuple[str, ...] = ()
    depth: int | None = None
    """Depth at launch."""
    wanted_depth: int | None = None
    """Depth to set once the engine is ready; as :attr:`depth` when there is nothing to do."""
    candidate_steps: tuple[int, ...] = ()
    probe: bool = False
    """Whether the probe is loaded into the engine."""

    @property
    def command(self) -> str:
        """The masked command line, for showing."""
        return masked_command(self.argv, self.env)


def build(
    profile: Profile,
    *,
    version: tuple[int, ...] | None,
    python: str,
    run_dir: Path,
    probe_dir: Path | None = None,
    admin_key: str = "",
    check_paths: bool = True,
) -> Launch:
    """The launch of a profile.

    Args:
        profile: what to launch.
        version: SGLang's version, from :mod:`console.engine.locate`; ``None`` (unknown) is taken for a new one.
        python: the interpreter that has SGLang.
        run_dir: where the launch's own files go.
        probe_dir: folder shared with the probe; ``None`` leaves the probe out.
        admin_key: key of the routes that change something; kept out of the command line.
        check_paths: whether folders must exist; for another box they need not.

    Raises:
        ConsoleError: SGLang would refuse or crash, and why.
    """
    engine = profile.engine
    words, secrets = flags.without_secrets(engine.args)
    words, warnings = flags.spelled(words, version)
    given = flags.values(words)
    _check_model(profile, given, check_paths=check_paths)
    spec = speculation.plan(profile.speculation, given, version)
    warnings = [*warnings, *spec.warnings]
    files: dict[Path, str] = {}
    chosen = _chosen(profile, spec)
    if spec.adaptive_config:
        files[run_dir / ADAPTIVE_FILE] = spec.adaptive_config
        chosen += [("--speculative-adaptive", None), ("--speculative-adaptive-config", str(run_dir / ADAPTIVE_FILE))]
    argv = [python, "-m", engine.module]
    for flag, value in chosen:
        if flag not in given:
            argv += [flag] if value is None else [flag, value]
    argv += words
    if secrets:
        warnings.append(
            f"--{next(iter(secrets))} stands in engine.args: a profile should hold no secret; use engine.api_key_file"
        )
    argv += _secret_words(_secrets(engine, secrets, admin_key), given, run_dir, files, warnings)
    _check_open(engine, given, files, warnings)
    probe = probe_dir is not None and engine.probe and (version is None or version >= PROBE_SINCE)
    if engine.probe and probe_dir is not None and not probe:
        warnings.append("no probe: SGLang before 0.5.11 loads no plugins; depth and drafter change by restart")
    env = _environment(profile, given, probe_dir if probe else None, warnings)
    return Launch(
        argv=tuple(argv),
        env=env,
        files=files,
        warnings=tuple(dict.fromkeys(warnings)),
        depth=spec.steps,
        wanted_depth=spec.wanted_depth if spec.wanted_depth is not None else spec.steps,
        candidate_steps=spec.candidate_steps,
        probe=probe,
    )


def _chosen(profile: Profile, spec: speculation.Plan) -> list[tuple[str, str | None]]:
    """Flags the console sets, unless the profile's own arguments do."""
    engine = profile.engine
    wanted: list[tuple[str, str | None]] = [
        ("--model-path", engine.model),
        ("--revision", engine.revision),
        ("--served-model-name", engine.served_name),
        ("--host", engine.host),
        ("--port", str(engine.port)),
        ("--tp-size", str(engine.tp) if engine.tp > 1 else ""),
        ("--enable-metrics", None),
        ("--speculative-algorithm", spec.algorithm),
        ("--speculative-draft-model-path", spec.drafter if spec.algorithm else ""),
        ("--speculative-draft-model-revision", profile.speculation.revision if spec.drafter and spec.algorithm else ""),
        ("--speculative-num-steps", _text(spec.steps)),
        ("--speculative-eagle-topk", _text(spec.topk)),
        ("--speculative-num-draft-tokens", _text(spec.draft_tokens)),
        ("--speculative-attention-mode", profile.speculation.attention_mode if spec.algorithm else ""),
    ]
    return [(flag, value) for flag, value in wanted if value is None or value]


def _text(number: int | None) -> str:
    return "" if number is None else str(number)


def _check_model(profile: Profile, given: Mapping[str, str], *, check_paths: bool) -> None:
    """What SGLang would find out after half a minute, found out before anything is stopped for it."""
    model = given.get("--model-path") or profile.engine.model
    if not model:
        raise ConsoleError(f"profile {profile.name} names no model", todo="set engine.model", code=ExitCode.USAGE)
    if not (check_paths and profile.engine.module.startswith("sglang")):
        return
    drafter = given.get("--speculative-draft-model-path") or (
        profile.speculation.drafter if profile.speculation.algorithm else ""
    )
    for what, path in (("engine.model", model), ("speculation.drafter", drafter)):
        if path.startswith(("/", "~", "./", "../")) and not Path(path).expanduser().exists():
            raise ConsoleError(f"{what} {path} does not exist", todo="correct the profile", code=ExitCode.USAGE)


def _check_open(
    engine: EngineSection, given: Mapping[str, str], files: Mapping[Path, str], warnings: list[str]
) -> None:
    host = given.get("--host") or engine.host
    keyed = any(path.name == SECRETS_FILE and '"api-key"' in text for path, text in files.items())
    if host not in LOOPBACK and not keyed:
        warnings.append(
            f"the engine listens on {host} without an API key: whoever reaches the port can use and stop it"
        )


# ------------------------------------------------------------------------------------------------ secrets


def _secrets(engine: EngineSection, from_args: Mapping[str, str], admin_key: str) -> dict[str, str]:
    """Secret options by name without dashes: of the arguments, the key file, the console's own admin key."""
    secrets = dict(from_args)
    if engine.api_key_file and "api-key" not in secrets:
        secrets["api-key"] = read_key(Path(engine.api_key_file).expanduser())
    if admin_key and "admin-api-key" not in secrets:
        secrets["admin-api-key"] = admin_key
    return secrets


def _secret_words(
    secrets: Mapping[str, str], given: Mapping[str, str], run_dir: Path, files: dict[Path, str], warnings: list[str]
) -> list[str]:
    """Hand secrets over in a private file that SGLang merges into its arguments (``--config``): the process list shows no key.

    SGLang takes one such file. When the profile names its own, secrets must stand on the command line.
    """
    if not secrets:
        return []
    for name, value in secrets.items():
        if not value or value.startswith("-") or any(mark in value for mark in "\n\r\0"):
            raise ConsoleError(
                f"the value of --{name} cannot be used",
                why="it is empty, starts with '-', or spans lines",
                code=ExitCode.USAGE,
            )
    if "--config" in given:
        warnings.append("--config of the profile leaves no room for the private file: keys show in the process list")
        return [word for name, value in secrets.items() for word in (f"--{name}", value)]
    path = run_dir / SECRETS_FILE
    files[path] = json.dumps(dict(secrets)) + "\n"  # JSON is YAML
    return ["--config", str(path)]


def read_key(path: Path) -> str:
    """The key in a file: its first line.

    Raises:
        ConsoleError: the file cannot be read or is empty.
    """
    try:
        with path.open("rb") as file:
            text = file.read(KEY_FILE_LIMIT_BYTES).decode("utf-8", errors="strict")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror or str(error) if isinstance(error, OSError) else "it is no text"
        raise ConsoleError(f"engine.api_key_file {path} cannot be read", why=why, code=ExitCode.USAGE) from error
    key = text.strip().partition("\n")[0].strip()
    if not key:
        raise ConsoleError(
            f"engine.api_key_file {path} is empty", todo="put the key on its first line", code=ExitCode.USAGE
        )
    return key


def write_files(files: Mapping[Path, str]) -> None:
    """Write a launch's files, each at once and readable by the owner only.

    Raises:
        ConsoleError: a file cannot be written.
    """
    for path, text in files.items():
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # 0600 from the start
            try:
                with os.fdopen(handle, "w") as file:
                    file.write(text)
                Path(temporary).replace(path)
            except OSError:
                with contextlib.suppress(OSError):
                    Path(temporary).unlink()
                raise
        except OSError as error:
            raise ConsoleError(
                f"cannot write {path}", why=error.strerror or str(error), todo="free space, or correct its owner"
            ) from error


# ------------------------------------------------------------------------------------------------ environment


def _environment(
    profile: Profile, given: Mapping[str, str], probe_dir: Path | None, warnings: list[str]
) -> dict[str, str]:
    engine = profile.engine
    env = dict(os.environ)
    # A directory of an earlier engine would add its counters to this one's.
    env.pop("PROMETHEUS_MULTIPROC_DIR", None)
    for name in engine.env.unset:
        env.pop(name, None)
    env.update(engine.env.set)
    absent = [name for name in engine.env.inherit if name not in env]
    exposed = [name for name, value in engine.env.set.items() if value and is_secret_name(name)]
    warnings += [f"{name} is named in env.inherit and is not set here" for name in absent]
    warnings += [
        f"{name} stands in env.set: a profile should hold no secret; name it in env.inherit" for name in exposed
    ]
    if DEVICE_TIMER_VARIABLE not in engine.env.set:
        env[DEVICE_TIMER_VARIABLE] = "1" if _device_timer(engine, given, warnings) else "0"
    env.setdefault("PYTHONUNBUFFERED", "1")
    folders = [*engine.pythonpath]
    if probe_dir is not None:
        folders.insert(0, str(PROBE_FOLDER))
        env[PROBE_DIR_VARIABLE] = str(probe_dir)
    else:
        env.pop(PROBE_DIR_VARIABLE, None)
    if folders:
        inherited = [env["PYTHONPATH"]] if env.get("PYTHONPATH") else []
        env["PYTHONPATH"] = os.pathsep.join([*(str(Path(folder).expanduser()) for folder in folders), *inherited])
    return env


def _device_timer(engine: EngineSection, given: Mapping[str, str], warnings: list[str]) -> bool:
    if engine.device_timer and given.get("--device") == "cpu":
        warnings.append(
            "the device timer is left off: on the CPU it kills the scheduler; stage times come from the probe only"
        )
        return False
    return engine.device_timer


# ------------------------------------------------------------------------------------------------ showing


def masked_command(argv: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """The command as a shell line with secrets masked, led by the variables that steer SGLang."""
    shown = mask_environment(
        {name: value for name, value in sorted((env or {}).items()) if name.startswith(SHOWN_ENVIRONMENT)}
    )
    words = [f"{name}={shlex.quote(value)}" for name, value in shown.items()]
    return " ".join([*words, *(shlex.quote(word) for word in mask_argv(argv))])


def export(
    profile: Profile, *, version: tuple[int, ...] | None = None, python: str = "python3", check_paths: bool = True
) -> str:
    """The launch as one plain shell line that needs no console: no probe, no admin key; an API key is read from its file."""
    engine = profile.engine
    folder = Path(tempfile.gettempdir()) / f"sglang-{profile.name}"
    section = {"api_key_file": "", "args": tuple(flags.without_secrets(engine.args)[0])}
    bare = _replace(profile, section)
    launch = build(
        bare, version=version, python=engine.python or python, run_dir=folder, probe_dir=None, check_paths=check_paths
    )
    words = ["env", *(word for name in engine.env.unset for word in ("-u", name))]
    sets = {name: value for name, value in engine.env.set.items() if not is_secret_name(name)}
    sets.setdefault(DEVICE_TIMER_VARIABLE, launch.env[DEVICE_TIMER_VARIABLE])
    words += [shlex.quote(f"{name}={value}") for name, value in sets.items()]
    if engine.pythonpath:
        folders = os.pathsep.join(shlex.quote(folder) for folder in engine.pythonpath)
        words.append(f'PYTHONPATH={folders}"${{PYTHONPATH:+:$PYTHONPATH}}"')
    words += [shlex.quote(word) for word in launch.argv]
    if engine.api_key_file:
        words += ["--api-key", f'"$(cat {shlex.quote(engine.api_key_file)})"']
    before = [f"mkdir -p {shlex.quote(str(folder))}"] if launch.files else []
    before += [f"printf %s {shlex.quote(text)} > {shlex.quote(str(path))}" for path, text in launch.files.items()]
    return " && ".join([*before, " ".join(words)])


def _replace(profile: Profile, section: Mapping[str, object]) -> Profile:
    import msgspec

    return msgspec.structs.replace(profile, engine=msgspec.structs.replace(profile.engine, **section))
