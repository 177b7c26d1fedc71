"""The engine's log is flooded, cut, replaced, filled with bytes, or grows to a gigabyte: it is followed on."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

from console import rig
from tests.faults.kinds import Family, Kind, Outcome, check
from tests.faults.rig import FaultRig, simulated, until

GIGABYTE = 1 << 30
LINES_S = 50_000
LINE_BYTES = 60
"""Of a line of the flood, at least."""


def _log(on: FaultRig) -> Path:
    return Path(on.snapshot().engine.log_path)


def _append(path: Path, raw: bytes) -> None:
    with path.open("ab") as file:
        file.write(raw)


def _followed(on: FaultRig, path: Path, timeout_s: float = 8.0) -> float:
    """Seconds until a line that is written now is shown."""
    mark = f"mark {time.monotonic_ns()}"
    _append(path, f"\n[2026-12-01 00:00:00] {mark}\n".encode())
    return until(lambda: any(mark in line for line in on.snapshot().log_tail), "a new line is shown", timeout_s)


def flooded(on: FaultRig, _chance: random.Random) -> Outcome:
    """50 000 lines a second for two seconds: the agent answers all the while, and the newest line is shown after."""
    on.up()
    on.sim_fault("log_flood", LINES_S)
    before = _log(on).stat().st_size
    slowest_s, end_s = 0.0, time.monotonic() + 2.0
    try:
        while time.monotonic() < end_s:
            begun = time.monotonic()
            on.client.ping()
            slowest_s = max(slowest_s, time.monotonic() - begun)
            time.sleep(0.05)
    finally:
        on.sim_fault("log_flood", clear=True)
    grown = _log(on).stat().st_size - before
    check(grown > LINES_S * LINE_BYTES, f"the log was flooded, it has grown by {grown} bytes")
    check(slowest_s < 1.5, f"the agent answers within {slowest_s:.1f} s at worst")
    caught_up_s = _followed(on, _log(on), 15.0)
    check(on.is_ready(), "the engine is ready")
    os.truncate(_log(on), 0)
    return Outcome(caught_up_s)


def cut(on: FaultRig, _chance: random.Random) -> Outcome:
    """The file is cut to nothing, as a careless rotation does."""
    on.up()
    on.sim_fault("log_truncate")
    noticed_s = _followed(on, _log(on))
    check("cut or replaced" in on.snapshot().engine.note, "it is told that lines are missing")
    check(on.is_ready(), "the engine is ready")
    return Outcome(noticed_s)


def rotated(on: FaultRig, _chance: random.Random) -> Outcome:
    """The file is renamed and a new one put in its place; lines of the new one are shown."""
    on.up()
    path = _log(on)
    aside = path.with_suffix(".1")
    path.rename(aside)
    path.write_text("")
    try:
        noticed_s = _followed(on, path)
        check("cut or replaced" in on.snapshot().engine.note, "it is told that lines are missing")
    finally:
        aside.replace(path)
    _followed(on, path)
    check(on.is_ready(), "the engine is ready")
    return Outcome(noticed_s)


def garbled(on: FaultRig, chance: random.Random) -> Outcome:
    """Random bytes, escapes and a line without end: nothing of it is sent on as it is, the next line is shown."""
    on.up()
    path = _log(on)
    ugly = b"\x1b]0;owned\x07\x1b[31m[bold]\x00\xff" + b"x" * chance.choice((10, 100_000, 2_000_000))
    _append(path, chance.randbytes(chance.choice((1, 1000, 200_000))) + ugly)
    noticed_s = _followed(on, path)
    shown = "".join(on.snapshot().log_tail)
    check(not any(ord(character) < 32 or ord(character) == 127 for character in shown), "no control character is sent")
    check(on.state is rig.EngineState.READY, "the engine is ready")
    return Outcome(noticed_s)


def huge(on: FaultRig, _chance: random.Random) -> Outcome:
    """The file is a gigabyte (sparse) at once: the middle is skipped, and it is said so."""
    on.up()
    path = _log(on)
    size = path.stat().st_size
    os.truncate(path, GIGABYTE)
    noticed_s = _followed(on, path, 20.0)
    check("skipped" in on.snapshot().engine.note, "it is told that lines were skipped")
    os.truncate(path, size)
    _followed(on, path)
    return Outcome(noticed_s)


LINE = "until the next line is shown"
FAMILY = Family(
    "log",
    simulated,
    (
        Kind("log cut to nothing", 14, LINE, cut),
        Kind("log rotated", 10, LINE, rotated),
        Kind("log filled with bytes", 14, LINE, garbled),
        Kind("log of 1 GB", 4, LINE, huge),
        Kind("log flood, 50 000 lines/s", 5, LINE, flooded),
    ),
    steady=True,
)
