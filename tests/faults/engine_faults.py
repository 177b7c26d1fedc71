"""The engine and its workers are killed, stopped or hung: dead and busy are told apart, and why is said."""

from __future__ import annotations

import random
import signal
import time

from console import rig
from console.agent import identity
from console.agent.crash_report import read_all
from console.agent.identity import Identity
from tests.faults.kinds import Family, Kind, Outcome, check
from tests.faults.rig import FaultRig, lives, simulated, until

DEAD = "until the engine is shown as dead"


def _dies(on: FaultRig, *, reports: int) -> float:
    """Seconds until its death is told; the cause is in words, a crash report is kept, no process is left."""
    noticed_s = until(lambda: on.state is rig.EngineState.DEAD, "the engine is shown as dead", 12.0)
    failure = on.snapshot().engine.failure
    check(failure is not None and failure.message, "the cause is told")
    until(lambda: len(read_all(on.paths.crashes)[0]) > reports, "a crash report is kept", 5.0)
    return noticed_s


def _reports(on: FaultRig) -> int:
    return len(read_all(on.paths.crashes)[0])


def _workers(on: FaultRig, role: str) -> list[Identity]:
    """The engine's workers of a role, once the agent has seen them."""
    until(lambda: any(entry.role == role for entry in on.snapshot().engine.processes), f"a {role} is known", 10.0)
    pids = [entry.pid for entry in on.snapshot().engine.processes if entry.role == role]
    return [found for pid in pids if (found := identity.identify(pid)) is not None]


def killed(on: FaultRig, chance: random.Random) -> Outcome:
    """SIGKILL to the launcher."""
    engine, reports = on.up(), _reports(on)
    time.sleep(0.5 * chance.random())
    identity.send(engine, signal.SIGKILL)
    return Outcome(_dies(on, reports=reports))


def worker_killed(role: str):
    """A round that kills a worker: the engine ends after it, and the cause names it."""

    def round_(on: FaultRig, chance: random.Random) -> Outcome:
        engine, reports = on.up(), _reports(on)
        workers = _workers(on, role)
        identity.send(chance.choice(workers), signal.SIGKILL)
        noticed_s = _dies(on, reports=reports)
        failure = on.snapshot().engine.failure
        said = f"{failure.message} {' '.join(failure.ranks)}" if failure is not None else ""
        check(role in said.lower() or "child" in said.lower(), f"the cause names the {role}: {said!r}")
        check(not lives(engine), "the launcher has ended")
        until(lambda: not any(lives(one) for one in workers), "no worker is left", 5.0)
        return Outcome(noticed_s)

    return round_


def stopped(on: FaultRig, _chance: random.Random) -> Outcome:
    """SIGSTOP to the whole engine: busy, never dead; SIGCONT: ready, the same process."""
    engine = on.up()
    try:
        identity.send(engine, signal.SIGSTOP)
        noticed_s = until(lambda: on.state is not rig.EngineState.READY, "it is not shown as ready any more", 15.0)
        check(on.state is rig.EngineState.BUSY, f"it is shown as busy, not {on.state}")
    finally:
        identity.send(engine, signal.SIGCONT)
    until(on.is_ready, "it is ready again", 10.0)
    check(on.engine == engine, "it is the same engine")
    return Outcome(noticed_s)


def hung(on: FaultRig, _chance: random.Random) -> Outcome:
    """Its HTTP server takes connections and never answers: busy, never dead; then it answers again."""
    engine = on.up()
    on.sim_fault("hang")
    try:
        noticed_s = until(lambda: on.state is not rig.EngineState.READY, "it is not shown as ready any more", 15.0)
        check(on.state is rig.EngineState.BUSY, f"it is shown as busy, not {on.state}")
        check("ping" in on.snapshot().engine.note, "what does not answer is named")
    finally:
        on.sim_fault("hang", clear=True)
    until(on.is_ready, "it is ready again", 15.0)
    check(on.engine == engine, "it is the same engine")
    return Outcome(noticed_s)


def exits(on: FaultRig, chance: random.Random) -> Outcome:
    """Somebody else sends SIGTERM, and it ends with some exit code: stopped, with that code."""
    code = chance.choice((0, 1, 3, 42, -9))
    engine = on.up(on.profile("exits", "--sim-fault", f"exit_code:{code}"))
    identity.send(engine, signal.SIGTERM)
    ended = {rig.EngineState.STOPPED, rig.EngineState.DEAD}
    noticed_s = until(lambda: on.state in ended, "its end is shown", 12.0)
    found = on.snapshot().engine
    check(found.exit_code == code, f"exit code {code} is shown, not {found.exit_code}")
    check("SIGTERM" in found.note, f"it is said how it ended, not {found.note!r}")
    return Outcome(noticed_s)


def deaf(on: FaultRig, _chance: random.Random) -> Outcome:
    """SIGTERM does nothing to it: a stop kills it after its time, and says so."""
    engine = on.up(on.profile("deaf", "--sim-fault", "ignore_sigterm", stop_timeout_s=1.0))
    begun = time.monotonic()
    done = on.do("stop")
    noticed_s = time.monotonic() - begun
    check(done.state is rig.OperationState.DONE, f"the stop is done: {done.message}")
    check("killed" in done.message, f"it is said that it was killed: {done.message!r}")
    check(not lives(engine), "it has ended")
    return Outcome(noticed_s)


FAMILY = Family(
    "engine",
    simulated,
    (
        Kind("engine -9", 14, DEAD, killed, harms=True),
        Kind("scheduler -9", 8, DEAD, worker_killed("scheduler"), harms=True),
        Kind("detokenizer -9", 8, DEAD, worker_killed("detokenizer"), harms=True),
        Kind("engine ends with a code", 8, "until its end is shown", exits, harms=True),
        Kind("engine ignores SIGTERM", 4, "until it is ended", deaf, harms=True),
        Kind("engine SIGSTOP/CONT", 5, "until it is shown as busy", stopped),
        Kind("engine hangs", 5, "until it is shown as busy", hung),
    ),
)
