"""From a configuration to a launch whose every precondition was checked before anything is stopped for it."""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from console.agent import death, files, ports
from console.agent.configuration import Configuration
from console.agent.state import EngineRecord
from console.engine import arguments, flags
from console.engine.arguments import Launch
from console.engine.locate import Installation, locate
from console.engine.secrets import mask_argv
from console.errors import ConsoleError, ExitCode
from console.paths import RigPaths
from profiles.schema import Profile

LOGS_KEPT = 20
KEYS_FILE = "engine-keys.json"
ANY_HOST = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where to reach what listens everywhere


class Build(Protocol):
    """Signature of :func:`console.engine.arguments.build`."""

    def __call__(
        self,
        profile: Profile,
        *,
        version: tuple[int, ...] | None,
        python: str,
        run_dir: Path,
        probe_dir: Path | None,
        admin_key: str,
    ) -> Launch:
        """The launch of a profile."""


class Keys(msgspec.Struct, frozen=True):
    """What the engine's HTTP server wants to see."""

    api_key: str = ""
    admin_key: str = ""

    @property
    def values(self) -> frozenset[str]:
        """For masking."""
        return frozenset(key for key in (self.api_key, self.admin_key) if key)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A launch that can be started now."""

    configuration: Configuration
    profile: Profile
    """The effective one."""
    installation: Installation
    launch: Launch
    host: str
    port: int
    keys: Keys

    @property
    def url(self) -> str:
        """Where its HTTP server will be reached from this machine."""
        host = ANY_HOST.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"


class Preparer:
    """Prepares launches of one rig. Its methods block: call them in a thread.

    Args:
        paths: the rig's files.
        simulated: whether the rig is a simulated one.
        find: finds the SGLang of a profile.
        build: makes the launch.
    """

    def __init__(
        self,
        paths: RigPaths,
        *,
        simulated: bool = False,
        find: Callable[[Profile], Installation] = locate,
        build: Build = arguments.build,
    ) -> None:
        self._paths = paths
        self._simulated = simulated
        self._find = find
        self._build = build

    def prepare(self, configuration: Configuration, *, replacing_port: int | None = None) -> Prepared:
        """Check everything that can be checked without starting it.

        Args:
            configuration: what to launch.
            replacing_port: held by the engine that will be stopped first; any other one must be free.

        Raises:
            ConsoleError: it cannot be launched, and why.
        """
        profile = configuration.effective()
        self._check_simulated(profile)
        if profile.engine.simulated:
            profile = _with_free_port(profile, replacing_port)
        installation = self._find(profile)
        _, given_secrets = flags.without_secrets(profile.engine.args)
        admin_key = given_secrets.get("admin-api-key") or secrets.token_urlsafe(24).replace("-", "x")
        launch = self._build(
            profile,
            version=installation.version,
            python=installation.python,
            run_dir=self._paths.runtime,
            probe_dir=self._paths.probe,
            admin_key=admin_key,
        )
        api_key = given_secrets.get("api-key", "")
        if not api_key and profile.engine.api_key_file:
            api_key = arguments.read_key(Path(profile.engine.api_key_file).expanduser())
        host, port = address(profile)
        if port != replacing_port:
            check_port(host, port)
        return Prepared(configuration, profile, installation, launch, host, port, Keys(api_key, admin_key))

    def _check_simulated(self, profile: Profile) -> None:
        if profile.engine.simulated is self._simulated:
            return
        if self._simulated:
            raise ConsoleError(
                f"rig {self._paths.name} is simulated and {profile.name} is a real engine's profile",
                todo="name another rig with --rig",
                code=ExitCode.USAGE,
            )
        raise ConsoleError(
            f"{profile.name} is a simulated engine's profile and rig {self._paths.name} is a real one",
            todo="use console demo, or run it on a rig of its own with --rig",
            code=ExitCode.USAGE,
        )


def address(profile: Profile) -> tuple[str, int]:
    """Host and port that the HTTP server will listen on; the profile's own arguments win.

    Raises:
        ConsoleError: the port is none.
    """
    given = flags.values(profile.engine.args)
    host = given.get("--host") or profile.engine.host
    text = given.get("--port", "")
    if text and not (text.isascii() and text.isdigit() and 0 < int(text[:6]) < 65536):
        raise ConsoleError(f"--port {text!r} is no port", todo="correct engine.args", code=ExitCode.USAGE)
    return host, int(text) if text else profile.engine.port


def address_of(record: EngineRecord) -> tuple[str, int]:
    """Host and port that a launched engine was given: a simulated one may have another port than its profile."""
    host, port = address(record.configuration.effective())
    return host, urlsplit(record.url).port or port


def _with_free_port(profile: Profile, replacing_port: int | None) -> Profile:
    """Nobody connects to a simulated engine from outside: two demos on one box take two ports."""
    host, port = address(profile)
    if port == replacing_port or ports.is_free(host, port):
        return profile
    engine = msgspec.structs.replace(profile.engine, port=ports.any_free(host))
    return msgspec.structs.replace(profile, engine=engine)


def check_port(host: str, port: int) -> None:
    """Refuse a port that somebody holds: SGLang finds out only after the whole start, and then never ends.

    Raises:
        ConsoleError: it is held, by whom; or the address is none of this machine.
    """
    try:
        free = ports.is_free(host, port)
    except OSError as error:
        raise ConsoleError(
            f"nothing can listen on {host}:{port}",
            why=error.strerror or str(error),
            todo="correct engine.host and engine.port in the profile",
            code=ExitCode.USAGE,
        ) from error
    if not free:
        raise ConsoleError(
            f"port {port} is taken",
            why=f"{ports.holder(port).line} listens on it",
            todo="end that process or choose another engine.port in the profile",
        )


def new_log(paths: RigPaths, profile_name: str) -> Path:
    """Path of the log of a launch that begins now; the oldest logs beyond :data:`LOGS_KEPT` go."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    path = paths.logs / f"{stamp}-{profile_name}.log"
    number = 1
    while path.exists():
        number += 1
        path = paths.logs / f"{stamp}.{number}-{profile_name}.log"
    old = sorted(paths.logs.glob("*.log"), key=lambda entry: entry.name)
    for entry in old[: max(0, len(old) - LOGS_KEPT + 1)]:
        entry.unlink(missing_ok=True)
    return path


def save_keys(paths: RigPaths, keys: Keys) -> None:
    """Keep the keys for a successor of this agent; a failure costs it the routes that change something."""
    files.replace_text(paths.dir / KEYS_FILE, msgspec.json.encode(keys))


def load_keys(paths: RigPaths) -> Keys:
    """The keys of the engine that a former agent started; empty when they are not there."""
    try:
        return msgspec.json.decode((paths.dir / KEYS_FILE).read_bytes(), type=Keys)
    except (OSError, msgspec.MsgspecError):
        return Keys()


def new_record(prepared: Prepared, log_path: Path, now_s: float, by: str) -> EngineRecord:
    """What is kept of a launch that begins now."""
    launch = prepared.launch
    spec = prepared.profile.speculation
    width = None if launch.depth is None else launch.depth + 1
    return EngineRecord(
        launch_id=uuid.uuid4().hex,
        configuration=prepared.configuration,
        url=prepared.url,
        log_path=str(log_path),
        started_at_s=now_s,
        by=by,
        argv=tuple(mask_argv(launch.argv)),
        command=launch.command,
        version=prepared.installation.version_text,
        depth=launch.depth,
        draft_tokens=width if spec.topk in {None, 1} else spec.draft_tokens,
        candidate_steps=launch.candidate_steps,
        simulated=prepared.profile.engine.simulated,
        oom_kills=death.oom_kills(),
    )
