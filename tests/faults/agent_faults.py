"""The agent is killed, ended, stopped, doubled, or its socket is taken away: its engine serves on and is found again."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time

from console import rig
from console.agent import identity
from console.agent.client import AgentError
from console.agent.past import gather
from console.agent.spawn import ensure_agent
from tests.faults.kinds import Family, Kind, Outcome, check
from tests.faults.rig import FaultRig, known_process, simulated, until

MOST_LOST_S = 1.5
"""A snapshot a second is kept: between the last one and the kill there is up to a second, and the beat of the agent."""


def _adopted(on: FaultRig, engine: identity.Identity) -> None:
    until(on.is_ready, "the new agent has taken the engine over", 10.0)
    check(on.engine == engine, "it is the same engine")


def _lost(on: FaultRig, at_s: float) -> str:
    """The claim that no more than the last second of samples is lost."""
    newest = on.newest_sample_s(at_s)
    check(newest is not None, "the journal holds the last seconds before the kill")
    assert newest is not None
    check(at_s - newest <= MOST_LOST_S, f"the newest sample is {at_s - newest:.2f} s older than the kill")
    return "" if at_s - newest <= 1.0 else "last second of samples"


def killed(on: FaultRig, chance: random.Random) -> Outcome:
    """SIGKILL at a random moment; the next agent takes the engine over."""
    engine = on.up()
    time.sleep(1.2 + 0.8 * chance.random())
    at_s = time.time()
    begun = time.monotonic()
    on.kill_agent()
    on.start_agent()
    _adopted(on, engine)
    return Outcome(time.monotonic() - begun, _lost(on, at_s))


def ended(on: FaultRig, chance: random.Random) -> Outcome:
    """SIGTERM: it ends cleanly, its socket is gone, the engine lives."""
    engine = on.up()
    time.sleep(1.1 + 0.4 * chance.random())
    at_s = time.time()
    begun = time.monotonic()
    on.kill_agent(signal.SIGTERM)
    gone_s = time.monotonic() - begun
    check(not on.paths.socket.exists(), "the socket is taken away")
    on.start_agent()
    _adopted(on, engine)
    return Outcome(gone_s, _lost(on, at_s))


def killed_in_operation(on: FaultRig, chance: random.Random) -> Outcome:
    """SIGKILL while a restart runs: the operation stands in the record as cut off, the rig can be used again."""
    on.up()
    operation = on.begin("restart")
    time.sleep(0.1 + 1.2 * chance.random())
    begun = time.monotonic()
    on.kill_agent()
    on.start_agent()
    noticed_s = time.monotonic() - begun
    until(lambda: on.state is not rig.EngineState.STOPPING, "the engine has a state", 5.0)
    check(on.recorded(operation) is not None, "the operation is recorded")
    on.up()
    done = on.do("depth", depth=1 + chance.randrange(3))
    check(done.ended_at_s, "the next operation runs")
    until(lambda: (on.recorded(done) or {}).get("ended_at_s"), "the next operation is recorded", 5.0)
    rows = {row["id"]: row for row in gather(on.paths, operation.started_at_s - 1, time.time()).rows["operations"]}
    state = rows[operation.id]["state"]
    check(state != rig.OperationState.RUNNING, f"the history tells how it ended, not {state!r}")
    return Outcome(noticed_s)


def stopped(on: FaultRig, chance: random.Random) -> Outcome:
    """SIGSTOP and SIGCONT: the same agent serves on, the same engine is ready."""
    engine, agent = on.up(), on.agent
    identity.send(agent, signal.SIGSTOP)
    time.sleep(0.3 + 1.5 * chance.random())
    begun = time.monotonic()
    identity.send(agent, signal.SIGCONT)
    _adopted(on, engine)
    served_s = time.monotonic() - begun
    check(on.agent == agent, "it is the same agent")
    return Outcome(served_s)


def socket_deleted(on: FaultRig, _chance: random.Random) -> Outcome:
    """The socket file is removed: the same agent listens again."""
    engine, agent = on.up(), on.agent
    on.paths.socket.unlink()
    noticed_s = until(lambda: on.agent_pid is not None, "the agent listens again", 6.0)
    check(on.agent == agent, "it is the same agent")
    _adopted(on, engine)
    return Outcome(noticed_s)


def second(on: FaultRig, chance: random.Random) -> Outcome:
    """A second agent is started: it says who runs and leaves; whoever asks for an agent gets the first."""
    engine, agent = on.up(), on.agent
    begun = time.monotonic()
    if chance.random() < 0.5:
        again = subprocess.run(
            [sys.executable, "-m", "console.agent", "--rig", on.name, "--simulated"],
            capture_output=True,
            text=True,
            timeout=20,
            env=on.env,
        )
        check(again.returncode == 1, f"it refuses, exit code {again.returncode}")
        check(f"pid {agent.pid}" in again.stderr, "it names the one that runs")
    else:
        check(ensure_agent(on.name).ping()["pid"] == agent.pid, "the first one answers")
    noticed_s = time.monotonic() - begun
    check(known_process(on.agent_pid) == agent, "it is the same agent")
    _adopted(on, engine)
    return Outcome(noticed_s)


def two_operations(on: FaultRig, chance: random.Random) -> Outcome:
    """Two changes at once: one runs, the other is told who is first; both end in the record or were never begun."""
    on.up()
    first = on.begin("depth", depth=chance.choice((1, 3)))
    begun = time.monotonic()
    refused, other = "", None
    try:
        other = on.client.operate("depth", {"depth": 2}, "somebody else")
    except AgentError as error:
        refused = error.line
        check(error.status == 409, f"it is refused as busy, not {error.status}: {error.line}")
        check("depth" in refused, "it is told what runs")
    noticed_s = time.monotonic() - begun
    done = on.ended(other or first)
    for each in (first, other):
        if each is not None:
            until(lambda each=each: (on.recorded(each) or {}).get("ended_at_s"), "each operation is recorded", 5.0)
    check(done.state is rig.OperationState.DONE, f"the one that ran is done, not {done.state}: {done.message}")
    return Outcome(noticed_s)


def cancelled(on: FaultRig, chance: random.Random) -> Outcome:
    """A restart is cancelled at a random moment: an end that is told and recorded, and an engine that can be had again."""
    on.up()
    operation = on.begin("restart")
    time.sleep(2.0 * chance.random())
    begun = time.monotonic()
    try:
        on.client.cancel("fault suite")
    except AgentError as error:
        check(error.status == 409, f"too late is told as such, not {error.status}: {error.line}")
    done = on.ended(operation)
    noticed_s = time.monotonic() - begun
    check(done.message, "the end is told in words")
    until(lambda: (on.recorded(operation) or {}).get("state") == done.state, "the end is recorded", 5.0)
    on.up()
    return Outcome(noticed_s)


FAMILY = Family(
    "agent",
    simulated,
    (
        Kind("agent -9", 16, "until the next agent has the engine", killed),
        Kind("agent SIGTERM", 8, "until it has ended", ended),
        Kind("agent SIGSTOP/CONT", 8, "until it serves again", stopped),
        Kind("socket file deleted", 6, "until it listens again", socket_deleted),
        Kind("second agent started", 8, "until the second has left", second),
        Kind("two operations at once", 12, "until the second is refused", two_operations),
        Kind("cancel at a random moment", 10, "until the operation has ended", cancelled, harms=True),
        Kind("agent -9 during a restart", 6, "until the next agent answers", killed_in_operation, harms=True),
    ),
)
