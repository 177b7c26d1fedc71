"""Where the console keeps its files: one folder per rig, 0700, nothing elsewhere.

``SGLANG_CONSOLE_HOME`` moves all of it (tests, or a box without a home folder).
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from console.errors import ConsoleError, ExitCode

APP = "sglang-console"
HOME_VARIABLE = "SGLANG_CONSOLE_HOME"
RIG_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
SOCKET_PATH_LIMIT_BYTES = 100
"""A Unix socket's address holds 108 bytes; the rest is margin for probe sockets beside it."""


def config_dir() -> Path:
    """The operator's own files: profiles."""
    if home := os.environ.get(HOME_VARIABLE):
        return Path(home) / "config"
    import platformdirs

    return Path(platformdirs.user_config_dir(APP))


def state_dir() -> Path:
    """What outlives a terminal: one folder per rig below ``rigs``."""
    if home := os.environ.get(HOME_VARIABLE):
        return Path(home) / "state"
    import platformdirs

    return Path(platformdirs.user_state_dir(APP))


class RigPaths:
    """The files of one rig. Nothing is created by looking."""

    def __init__(self, name: str) -> None:
        if not RIG_NAME.fullmatch(name):
            raise ConsoleError(
                f"{name!r} is no rig name",
                why="a rig name has 1 to 40 letters, digits, '.', '_' or '-' and starts with a letter or digit",
                code=ExitCode.USAGE,
            )
        self.name = name
        self.dir = state_dir() / "rigs" / name
        self.state = self.dir / "state.json"
        self.lock = self.dir / "agent.lock"
        self.agent_log = self.dir / "agent.log"
        self.history = self.dir / "history.sqlite"
        self.logs = self.dir / "engine-logs"
        self.crashes = self.dir / "crashes"

    @property
    def runtime(self) -> Path:
        """Folder of the sockets: the rig's own, or a short one when that path is too long for a socket."""
        own = self.dir / "run"
        if len(os.fsencode(own)) + 16 <= SOCKET_PATH_LIMIT_BYTES:
            return own
        digest = hashlib.sha256(os.fsencode(self.dir)).hexdigest()[:16]
        return Path("/tmp") / f"{APP}-{os.getuid()}-{digest}"  # noqa: S108 - made 0700, owner checked on use

    @property
    def socket(self) -> Path:
        """The agent's Unix socket."""
        return self.runtime / "agent.sock"

    @property
    def probe(self) -> Path:
        """Folder shared with the probe in the engine's ranks: feed sockets, newest feed, commands."""
        return self.runtime / "probe"

    def make(self) -> None:
        """Create the folders, 0700, refusing one that belongs to somebody else."""
        for folder in (self.dir, self.runtime, self.probe, self.logs, self.crashes):
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                stat = folder.stat()
                if stat.st_uid != os.getuid():
                    raise ConsoleError(
                        f"{folder} belongs to user {stat.st_uid}",
                        why="the rig's folder must be yours alone",
                        todo=f"remove it or set {HOME_VARIABLE} to a folder of your own",
                    )
                if stat.st_mode & 0o077:
                    folder.chmod(0o700)
            except OSError as error:
                raise ConsoleError(
                    f"cannot make {folder}",
                    why=error.strerror or str(error),
                    todo=f"free it, or set {HOME_VARIABLE} to a folder that can be written",
                ) from error


def rig_names() -> list[str]:
    """Rigs that have a folder, running or not."""
    rigs = state_dir() / "rigs"
    try:
        return sorted(entry.name for entry in rigs.iterdir() if entry.is_dir() and RIG_NAME.fullmatch(entry.name))
    except OSError:
        return []
