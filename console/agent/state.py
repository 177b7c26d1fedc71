"""The rig's state file: what a successor needs to take over the engine of an agent that was killed.

One JSON object, mode 0600, replaced atomically. A file that cannot be read is moved aside, never deleted; a folder that
cannot be written to costs the adoption after a kill, nothing else.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from console import rig
from console.agent import files
from console.agent.configuration import Configuration
from console.agent.identity import Identity

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
    draft_tokens: int | None = None
    candidate_steps: tuple[int, ...] = ()
    simulated: bool = False
    first_token_asked_at_s: float | None = None
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


class RigState(msgspec.Struct, frozen=True, kw_only=True):
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
    """The state, and the file that holds it.

    Args:
        path: the file; its folder exists.
        noted: told why the file is not what it should be, once a reason.
    """

    def __init__(self, path: Path, noted: Callable[[str], None] = lambda _note: None) -> None:
        self._path = path
        self._noted = noted
        self.state = RigState()
        self.note = ""
        """Why the file is not what it should be; empty while all is well."""

    def load(self) -> RigState:
        """What a former agent left; an empty state when it left nothing that can be read."""
        try:
            if self._path.stat().st_size > MOST_BYTES:
                self._move_aside("it is too long")
                return self.state
            found = msgspec.json.decode(self._path.read_bytes(), type=RigState)
        except FileNotFoundError:
            return self.state
        except msgspec.MsgspecError as error:
            self._move_aside(str(error))
            return self.state
        except OSError as error:
            why = error.strerror or str(error)
            self._tell(f"{self._path} cannot be read: {why} - an engine that runs is not adopted")
            return self.state
        if found.schema != SCHEMA:
            self._move_aside(f"it is of version {found.schema}, this console reads {SCHEMA}")
            return self.state
        self.state = found
        return found

    def change(self, **changes: Any) -> None:
        """Change fields of the state and write it; a failure is told and raises nothing."""
        self.state = msgspec.structs.replace(self.state, **changes)
        try:
            files.replace_text(self._path, msgspec.json.format(msgspec.json.encode(self.state), indent=1))
        except OSError as error:
            self._tell(
                f"the rig's state cannot be written to {self._path}: {error.strerror or error} - "
                "if this agent is killed, the next one will not find the engine"
            )
        else:
            self.note = ""

    def change_engine(self, **changes: Any) -> None:
        """Change fields of the engine's record; nothing without one."""
        if self.state.engine is not None:
            self.change(engine=msgspec.structs.replace(self.state.engine, **changes))

    def _tell(self, note: str) -> None:
        if note != self.note:
            self.note = note
            self._noted(note)

    def _move_aside(self, why: str) -> None:
        aside = self._path.with_name(f"{self._path.name}.unreadable-{time.strftime('%Y%m%d-%H%M%S')}")
        with contextlib.suppress(OSError):
            self._path.replace(aside)
        self._tell(f"the rig's state file could not be read ({why}) and was moved to {aside.name}")
