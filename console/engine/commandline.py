"""From a shell command line that starts SGLang to a profile, and from a profile to a line that comes back as the same profile.

A command line cannot say everything a profile holds (goals, guard, other drafters). The export writes that into comment lines
that begin with ``#:``, one ``key=value`` each, as ``console profiles save`` takes them; a shell passes over them.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from console.engine import arguments, flags, shell_words
from console.engine.secrets import is_secret_name, mask_argv
from console.errors import ConsoleError, ExitCode
from profiles import assign, keys, read
from profiles.schema import EngineSection, Profile

MARK = "#:"
_HEAD = "# sglang-console profile {name}; a shell needs only the last line, the ones with #: say what it cannot"
_NAMED = re.compile(r"^# sglang-console profile (\S+);", re.MULTILINE)
_INHERITED_PATH = re.compile(r":?\$\{PYTHONPATH:\+:\$PYTHONPATH\}$|:?\$\{?PYTHONPATH\}?$")
_SUBSTITUTION = re.compile(r"^\$\(\s*(?:cat|<)\s+(.+?)\s*\)$", re.DOTALL)
_PYTHONS = frozenset({"python", "python3"})
CONFIG_LIMIT_BYTES = 64 * 1024

TEXTS = {
    "--model-path": ("engine", "model"),
    "--revision": ("engine", "revision"),
    "--served-model-name": ("engine", "served_name"),
    "--host": ("engine", "host"),
    "--speculative-algorithm": ("speculation", "algorithm"),
    "--speculative-draft-model-path": ("speculation", "drafter"),
    "--speculative-draft-model-revision": ("speculation", "revision"),
    "--speculative-attention-mode": ("speculation", "attention_mode"),
}
NUMBERS = {
    "--port": ("engine", "port"),
    "--tp-size": ("engine", "tp"),
    "--speculative-num-steps": ("speculation", "steps"),
    "--speculative-eagle-topk": ("speculation", "topk"),
    "--speculative-num-draft-tokens": ("speculation", "draft_tokens"),
}
OURS = frozenset({"--enable-metrics"})
"""Set by the console at every launch: no need to keep them."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The profile of a command line, and what there is to say of it."""

    profile: Profile
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Found:
    engine: dict[str, Any] = field(default_factory=dict)
    speculation: dict[str, Any] = field(default_factory=dict)
    args: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


# ------------------------------------------------------------------------------------------------- export


def export(profile: Profile, *, version: tuple[int, ...] | None = None) -> str:
    """The launch as shell text; :func:`imported` makes the same profile of it."""
    line = arguments.export(profile, version=version, check_paths=False)
    plain = imported(line, profile.name).profile
    return "\n".join([_HEAD.format(name=profile.name), *_unsaid(plain, profile), line]) + "\n"


def _unsaid(plain: Profile, profile: Profile) -> list[str]:
    """What the line alone does not bring back."""
    here, wanted = keys.flat(plain), keys.flat(profile)
    out = []
    for path in dict.fromkeys([*wanted, *here]):
        if path[0] in ("measured", "name") or here.get(path) == wanted.get(path):
            continue
        out.append(f"{MARK} {keys.shown(path)}={toml_value(wanted[path]) if path in wanted else ''}")
    if profile.measured:
        out.append(f"{MARK} measured={toml_value(profile.measured)}")
    return out


def toml_value(value: object) -> str:
    """A value on one line of TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        pairs = (f"{json.dumps(str(key), ensure_ascii=False)} = {toml_value(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    return repr(value) if isinstance(value, float) else str(value)


# ------------------------------------------------------------------------------------------------- import


def imported(text: str, name: str = "") -> Imported:
    """The profile of a command line, an exported one or anybody's.

    Args:
        text: shell text with one command that starts SGLang.
        name: the profile's name; empty: the exported one's, else the model's.

    Raises:
        ConsoleError: it starts no SGLang, or starts several, or a value cannot be used.
    """
    script = shell_words.parse(text)
    launches = [(command, start) for command in script.commands if (start := _launcher(command.words))]
    if len(launches) != 1:
        what = "starts no SGLang server" if not launches else f"starts {len(launches)} SGLang servers"
        raise ConsoleError(
            f"this command line {what}", todo='give one "python -m sglang.launch_server ..."', code=ExitCode.USAGE
        )
    command, (python, module, words) = launches[0]
    found = _Found(engine={"module": module} if module != EngineSection().module else {})
    if python not in _PYTHONS:
        found.engine["python"] = python
    _take_arguments(words, script.files, found)
    _take_environment(command, found)
    spec = found.speculation
    if spec.get("topk") == 1 and spec.get("draft_tokens") == spec.get("steps", -2) + 1:
        del spec["draft_tokens"]  # a chain has no other width
    for left in script.commands:
        if left is not command:
            found.notes.append(f"left out: {flags_shown(left.words)}")
    title = _NAMED.search(text)
    profile = _profile(name or (title[1] if title else "") or _name_of(found.engine.get("model", "")), found)
    said = [line.strip().removeprefix(MARK).strip() for line in text.splitlines() if line.strip().startswith(MARK)]
    return Imported(assign.assigned(profile, said), tuple(dict.fromkeys(found.notes)))


def _launcher(words: Sequence[str]) -> tuple[str, str, tuple[str, ...]] | None:
    """Interpreter, module and arguments of a command that starts SGLang; ``None`` for another one."""
    if len(words) > 2 and "-m" in words[1:3]:
        at = words.index("-m")
        if len(words) > at + 1 and words[at + 1].partition(".")[0] in {"sglang", "console"}:
            return words[0], words[at + 1], tuple(words[at + 2 :])
    if len(words) > 1 and Path(words[0]).name == "sglang" and words[1] == "serve":
        return "python3", EngineSection().module, tuple(words[2:])
    return None


def _take_arguments(words: Sequence[str], files: Mapping[str, str], found: _Found) -> None:
    """Known flags into the profile's keys, all others as they stand into ``engine.args``."""
    rest = list(words)
    given = flags.values(rest)
    prebuilt = _candidate_steps(given, files) if "--speculative-adaptive" in given else None
    while rest:
        word = rest.pop(0)
        name, (_, equals, value) = flags.canonical(word), word.partition("=")
        takes_value = bool(rest) and not rest[0].startswith("--")
        if name in OURS:
            continue
        if prebuilt is not None and name in {"--speculative-adaptive", "--speculative-adaptive-config"}:
            if not equals and name.endswith("config") and takes_value:
                rest.pop(0)
            found.speculation["candidate_steps"] = list(prebuilt)
            continue
        if name not in TEXTS and name not in NUMBERS and name != "--api-key":
            found.args.append(word)
            continue
        if not equals:
            if not takes_value:
                raise ConsoleError(f"{name} has no value", code=ExitCode.USAGE)
            value = rest.pop(0)
        if name == "--api-key":
            _take_key(value, found)
            continue
        section, key = TEXTS.get(name) or NUMBERS[name]
        getattr(found, section)[key] = value if name in TEXTS else _number(name, value)


def _number(name: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 9):
        raise ConsoleError(f"{name} {value!r} is no whole number", code=ExitCode.USAGE)
    return int(value)


def _take_key(value: str, found: _Found) -> None:
    """A key that is read from a file is that file; one that stands there is left behind: a profile holds no secret."""
    inner = _SUBSTITUTION.match(value)
    if inner is not None:
        found.engine["api_key_file"] = " ".join(shlex.split(inner[1]))
        return
    found.notes.append(
        "--api-key is left out: a profile holds no secret; put it into a file and set engine.api_key_file"
    )


def _candidate_steps(given: Mapping[str, str], files: Mapping[str, str]) -> tuple[int, ...] | None:
    """The prebuilt depths of an adaptive config; ``None`` where it cannot be read, or says more than depths."""
    path = given.get("--speculative-adaptive-config", "")
    text = files.get(path)
    if text is None and path:
        try:
            with Path(path).open("rb") as file:
                text = file.read(CONFIG_LIMIT_BYTES).decode()
        except (OSError, ValueError):
            return None
    try:
        config = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    if isinstance(config, dict) and list(config) == ["1"]:
        config = config["1"]
    steps = config.get("candidate_steps") if isinstance(config, dict) and list(config) == ["candidate_steps"] else None
    usable = isinstance(steps, list) and all(type(step) is int and 0 <= step <= 64 for step in steps)
    return tuple(steps) if usable and isinstance(steps, list) else None


def _take_environment(command: shell_words.Command, found: _Found) -> None:
    env = dict(command.env)
    timer = env.pop(arguments.DEVICE_TIMER_VARIABLE, None)
    if timer is not None and timer != "1":
        found.engine["device_timer"] = False
    if path := env.pop("PYTHONPATH", ""):
        folders = [folder for folder in _INHERITED_PATH.sub("", path).split(":") if folder]
        if folders:
            found.engine["pythonpath"] = folders
    for name in [name for name in env if is_secret_name(name) and env[name]]:
        found.notes.append(f"{name} is left out: a profile holds no secret; it is named in engine.env.inherit")
        del env[name]
        found.engine.setdefault("_inherit", []).append(name)
    unset = [name for name in command.unset if name not in env]
    inherit = found.engine.pop("_inherit", [])
    if env or unset or inherit:
        found.engine["env"] = {"set": env, "unset": unset, "inherit": inherit}


def _profile(name: str, found: _Found) -> Profile:
    engine = {**found.engine, **({"args": found.args} if found.args else {})}
    data = {"name": name, "engine": engine, "speculation": found.speculation}
    env = engine.get("env")
    if env is not None:
        engine["env"] = {key: value for key, value in env.items() if value}
    return read.validate({key: value for key, value in data.items() if value}, "the command line")


def _name_of(model: str) -> str:
    """A profile's name from a model's."""
    last = model.rstrip("/").rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip("-._")[:64] or "imported"


def flags_shown(words: Sequence[str]) -> str:
    """A command in a note: its beginning, masked."""
    shown = " ".join(mask_argv(list(words)))
    return shown if len(shown) <= 60 else shown[:57] + "..."
