"""The rig's state file: what a successor needs to take over the engine of an agent that was killed.

One JSON object, mode 0600, replaced atomically. A file that cannot be read is moved aside, never deleted; a folder that
cannot be written to costs the adoption after a kill, nothing else.
"""

from __future__ import annotations

import contextlib
import logging
import time
from pathlib import Path

import msgspec

from console import rig
from console.agent import files
from console.agent.configuration import Configuration
from console.agent.identity import Identity

log = logging.getLogger(__name__)

SCHEMA = 1
MOST_BYTES = 4 << 20


class EngineRecord(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One launched engine."""

    launch_id: str
    """Unique; stands in the engine's environment, so that an engine whose pid was not written down is found."""
    configuration: Configuration
    url: str
    log_path: str
    started_at_s: float
    by: str = ""
    identity: Identity | None = None
    """``None`` only in the moment between deciding to start it and having started it."""
    created_s: float | None = None
    """Start time of the process in Unix seconds, for people."""
    argv: tuple[str, ...] = ()
    """Masked."""
    command: str = ""
    """Masked, with the variables that steer SGLang."""
    version: str = ""
    depth: int | None = None
    """Depth at launch."""
    wanted_depth: int | None = None
    """Depth that somebody asked for; held again after a restart."""
    draft_tokens: int | None = None
    candidate_steps: tuple[int, ...] = ()
    simulated: bool = False
    ready_at_s: float | None = None
    members: tuple[Identity, ...] = ()
    """Processes seen to be the engine's."""
    oom_kills: int | None = None
    """The kernel's count of out-of-memory kills at launch."""


class Ending(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How the last engine ended."""

    state: rig.EngineState
    at_s: float
    note: str = ""
    failure: rig.Failure | None = None
    exit_code: int | None = None


class RigState(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Everything that outlives an agent."""

    schema: int = SCHEMA
    engine: EngineRecord | None = None
    """The newest engine, living or ended."""
    ended: Ending | None = None
    """Set once :attr:`engine` has ended."""
    attached_url: str = ""
    last_good: Configuration | None = None
    """The newest configuration that got ready."""


class Store:
    """Reads and writes the state file.

    Args:
        path: the file; its folder exists.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.note = ""
        """Why the file is not what it should be; empty while all is well."""

    def load(self) -> RigState:
        """What a former agent left; an empty state when it left nothing that can be read."""
        try:
            if self._path.stat().st_size > MOST_BYTES:
                return self._move_aside("it is too long")
            state = msgspec.json.decode(self._path.read_bytes(), type=RigState)
        except FileNotFoundError:
            return RigState()
        except msgspec.MsgspecError as error:
            return self._move_aside(str(error))
        except OSError as error:
            self.note = f"{self._path} cannot be read: {error.strerror or error} - an engine that runs is not adopted"
            return RigState()
        if state.schema != SCHEMA:
            return self._move_aside(f"it is of version {state.schema}, this console reads {SCHEMA}")
        return state

    def save(self, state: RigState) -> None:
        """Write; a failure is kept in :attr:`note` and raises nothing."""
        try:
            files.replace_text(self._path, msgspec.json.format(msgspec.json.encode(state), indent=1))
        except OSError as error:
            if not self.note:
                log.warning("the state file cannot be written: %s", error)
            self.note = (
                f"the rig's state cannot be written to {self._path}: {error.strerror or error} - "
                "if this agent is killed, the next one will not find the engine"
            )
        else:
            self.note = ""

    def _move_aside(self, why: str) -> RigState:
        aside = self._path.with_name(f"{self._path.name}.unreadable-{time.strftime('%Y%m%d-%H%M%S')}")
        with contextlib.suppress(OSError):
            self._path.replace(aside)
        self.note = f"the rig's state file could not be read ({why}) and was moved to {aside.name}"
        log.warning("%s", self.note)
        return RigState()
