"""What the engine tells the simulated GPUs, in a small file replaced twice a second."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pathlib import Path


class EngineFile(msgspec.Struct, frozen=True):
    """State of a simulated engine; ``loaded`` and ``graphs`` are fractions of the start that fill GPU memory."""

    pid: int
    at_s: float
    tp: int
    phase: str
    schedulers: tuple[int, ...] = ()
    loaded: float = 0.0
    kv: float = 0.0
    graphs: float = 0.0
    running: int = 0
    max_running: int = 1
    busy: float = 0.0
    """Share of the time the GPUs compute."""
    faults: dict[str, float] = {}


def write(path: Path, state: EngineFile) -> None:
    """Replace the file atomically. A folder that is gone ends the rig's file, not the engine."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(msgspec.json.encode(state))
        temporary.replace(path)
    except OSError:
        return


def read(path: Path) -> EngineFile | None:
    """The engine's newest state; ``None`` when there is none that can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=EngineFile)
    except (OSError, msgspec.MsgspecError):
        return None
