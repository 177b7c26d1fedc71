"""What the state file of a rig says without an agent: read by clients, so nothing heavy is imported."""

from __future__ import annotations

from pathlib import Path

import msgspec

from console.agent import identity
from console.agent.identity import Identity


class _Engine(msgspec.Struct):
    identity: Identity | None = None
    simulated: bool = False


class _State(msgspec.Struct):
    engine: _Engine | None = None
    ended: dict[str, object] | None = None
    attached_url: str = ""


def _read(path: Path) -> _State:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_State)
    except (OSError, msgspec.MsgspecError):
        return _State()


def is_there(path: Path) -> bool:
    """Whether an engine waits to be adopted, or a server to be watched again."""
    state = _read(path)
    if state.attached_url:
        return True
    known = state.engine.identity if state.engine is not None and state.ended is None else None
    return known is not None and not identity.why_gone(known)


def is_simulated(path: Path) -> bool:
    """Whether the newest engine of the rig was a simulated one."""
    engine = _read(path).engine
    return engine is not None and engine.simulated
