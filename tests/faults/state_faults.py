"""The rig's files lie: the next agent believes nothing that it cannot prove, touches no process, deletes nothing."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import time
from collections.abc import Callable
from typing import Any

from console import rig
from console.agent import record
from tests.faults.kinds import Family, Kind, Outcome, check
from tests.faults.rig import FaultRig, lives, simulated, until


def _lied_to(on: FaultRig, lie: Callable[[bytes], bytes], told: Callable[[], object], what: str) -> Outcome:
    """Replace the state file under a dead agent, look at what the next one makes of it, and put the truth back."""
    engine = on.up()
    on.kill_agent()
    truth = on.paths.state.read_bytes()
    on.paths.state.write_bytes(lie(truth))
    begun = time.monotonic()
    on.start_agent()
    until(told, what, 5.0)
    noticed_s = time.monotonic() - begun
    check(on.state is not rig.EngineState.READY, "it claims no engine that it cannot prove to be its own")
    check(lives(engine), "the engine serves on")
    on.kill_agent()
    on.paths.state.write_bytes(truth)
    on.start_agent()
    until(on.is_ready, "with the true file the engine is taken over", 8.0)
    check(on.engine == engine, "it is the same engine")
    for aside in on.paths.dir.glob("state.json.unreadable-*"):
        aside.unlink()
    return Outcome(noticed_s)


def garbage(on: FaultRig, chance: random.Random) -> Outcome:
    """Bytes, another type, half a file: moved aside, told, never deleted."""

    def lie(truth: bytes) -> bytes:
        made = (chance.randbytes(300), b"", b"[]", b'{"schema": 99}', truth[: chance.randrange(1, len(truth) - 2)])
        return chance.choice(made)

    def told() -> bool:
        return bool(list(on.paths.dir.glob("state.json.unreadable-*"))) and on.told("state file could not be read")

    return _lied_to(on, lie, told, "the file is moved aside and that is told")


def _with_identity(**changes: Any) -> Callable[[bytes], bytes]:
    def lie(truth: bytes) -> bytes:
        state = json.loads(truth)
        state["engine"]["identity"].update(changes)
        return json.dumps(state).encode()

    return lie


def other_boot(on: FaultRig, _chance: random.Random) -> Outcome:
    """The file is of an earlier boot."""
    lie = _with_identity(boot_id="00000000-0000-0000-0000-000000000000")
    return _lied_to(on, lie, lambda: "booted" in on.snapshot().engine.note, "that the machine was booted since")


def pid_reused(on: FaultRig, chance: random.Random) -> Outcome:
    """The pid belongs to another process now: this suite's own, or the engine's with another start time."""
    if chance.random() < 0.5:
        lie = _with_identity(start_ticks=chance.randrange(1, 1000))
    else:
        lie = _with_identity(pid=os.getpid(), start_ticks=1)
    return _lied_to(on, lie, lambda: "another process" in on.snapshot().engine.note, "that the pid is another's")


def gone(on: FaultRig, _chance: random.Random) -> Outcome:
    """The file is removed under a running agent and it is killed: none of it is believed; told true, it is taken over."""
    return _lied_to(on, lambda _truth: b"{}", lambda: on.state is rig.EngineState.NONE, "no engine is claimed")


def journal_damaged(on: FaultRig, chance: random.Random) -> Outcome:
    """The journal is overwritten under a dead agent: moved aside whole, a new one begun, and it is said."""
    engine = on.up()
    on.kill_agent()
    raw = on.paths.history.read_bytes()
    damaged = chance.choice((chance.randbytes(5000), raw[:100] + bytes(5000), b"SQLite format 3\0" + bytes(10)))
    on.paths.history.write_bytes(damaged)
    for suffix in ("-wal", "-shm"):
        on.paths.history.with_name(on.paths.history.name + suffix).unlink(missing_ok=True)
    begun = time.monotonic()
    on.start_agent()
    until(lambda: "moved to" in on.snapshot().agent.journal_note, "the snapshot says so", 6.0)
    noticed_s = time.monotonic() - begun
    asides = [entry for entry in on.paths.dir.glob("history.sqlite.unusable-*") if entry.read_bytes() == damaged]
    check(len(asides) == 1, "the damaged file is kept as it was")
    asides[0].unlink()
    at_s = time.time()
    until(lambda: _records_since(on, at_s), "the new journal is written", 6.0)
    check(on.engine == engine, "it is the same engine")
    return Outcome(noticed_s, "")


def journal_removed(on: FaultRig, _chance: random.Random) -> Outcome:
    """The journal is removed under a running agent: it is begun again, what is to come is not lost."""
    on.up()
    on.paths.history.unlink()
    begun, at_s = time.monotonic(), time.time()
    until(lambda: _records_since(on, at_s), "it is written again", 8.0)
    return Outcome(time.monotonic() - begun)


def journal_locked(on: FaultRig, chance: random.Random) -> Outcome:
    """Somebody holds a lock on the journal for a while: the agent answers, and what waited is written after."""
    on.up()
    until(lambda: _records_since(on, time.time() - 5), "it is written", 6.0)
    holder = sqlite3.connect(on.paths.history, isolation_level=None)
    begun = time.monotonic()
    try:
        holder.execute("BEGIN IMMEDIATE")
        done = on.do("depth", depth=chance.choice((1, 2, 3)))
        time.sleep(0.3)
        on.client.ping()
    finally:
        holder.close()
    check(done.state is rig.OperationState.DONE, f"an operation is done meanwhile: {done.message}")
    until(lambda: (on.recorded(done) or {}).get("ended_at_s"), "the operation is recorded after", 40.0)
    return Outcome(time.monotonic() - begun)


def _records_since(on: FaultRig, at_s: float) -> bool:
    try:
        return bool(record.read_samples(on.paths.history, at_s))
    except sqlite3.Error:
        return False


RIGHT = "until the next agent says so"
FAMILY = Family(
    "state",
    simulated,
    (
        Kind("state file garbage", 10, RIGHT, garbage),
        Kind("state file of another boot", 8, RIGHT, other_boot),
        Kind("state file empty", 4, RIGHT, gone),
        Kind("pid used again", 10, RIGHT, pid_reused),
        Kind("journal damaged", 8, RIGHT, journal_damaged),
        Kind("journal removed", 6, "until it is written again", journal_removed),
        Kind("journal locked by somebody", 5, "until the operation is recorded", journal_locked),
    ),
)
