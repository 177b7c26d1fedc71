"""A swap to its end: verdict, exchange, proof, watch, and the way back by itself."""

import time

import pytest

from console import rig
from console.agent import changes
from console.agent.changes import Judgement
from console.agent.records import KEPT, Record, Records, summary
from console.errors import ConsoleError
from console.rig import OperationState, StepState
from tests.agent.control import Live, controlled

ACCEPTS = {"org/a": 2.0, "org/good": 3.4, "org/silent": 1.0}


class Accepting(Live):
    """What the drafter in it would win."""

    def __init__(self, **how):
        super().__init__(**how)
        self.drafter, self.asked, self.broken = "org/a", [], ""

    async def swap(self, path):
        self.asked.append(path)
        if path == self.broken:
            raise ConsoleError(f"{path} does not load")
        self.drafter = path
        return f"{path} is loaded on every rank"

    def sample(self, running=2.0):
        now = time.time()
        per_depth = 1 + (ACCEPTS[self.drafter] - 1) * min(self.now, 3) / 2
        return rig.Snapshot(
            at_s=now,
            acceptance=rig.Acceptance(
                accept_len=rig.Figure(per_depth, rig.Source.PROBE, now),
                depth=rig.Figure(self.now, rig.Source.PROBE, now),
            ),
            load=rig.Load(
                running=rig.Figure(running, rig.Source.LOADS, now),
                tok_s_stream=rig.Figure(30 * per_depth, rig.Source.DERIVED, now),
            ),
        )


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLANG_CONSOLE_HOME", str(tmp_path))
    monkeypatch.setattr(changes.Judge, "__call__", lambda self, drafter, **_: Judgement())


@pytest.fixture
async def rigged(tmp_path):
    live = Accepting()
    async with controlled(tmp_path, live=live) as made:
        await made.up()
        made.live = live
        made.daemon.guarded._sample = live.sample
        yield made


def steps(done):
    return {step.name: step.state for step in done.steps}


async def test_a_good_drafter_is_kept_and_leaves_a_record(rigged):
    done = await rigged.do("swap", drafter="org/good")
    assert done.state is OperationState.DONE, done.message
    assert "accept_len 3.40 holds 1.60 (80% of 2.00 before)" in done.message
    assert list(steps(done)) == [changes.VERDICT, changes.EXCHANGE, changes.PROOF, changes.WATCH]
    assert set(steps(done).values()) == {StepState.DONE}
    found = summary(rigged.daemon.records.read()["org/good"])
    assert (found.last.accept_len, found.last.outcome, found.last.depth, found.count) == (3.4, "kept", 2, 1)
    assert found.last.fingerprint == rigged.measure.fingerprint
    assert found.last.tok_s == pytest.approx(102.0)


async def test_a_silent_one_is_taken_back_by_itself(rigged):
    done = await rigged.do("swap", drafter="org/silent")
    assert done.state is OperationState.ROLLED_BACK
    assert "accept_len 1.00 is below 1.60" in done.message
    assert rigged.live.asked == ["org/silent", "org/a"]
    assert rigged.engine.drafter == "org/a"
    assert (steps(done)[changes.WATCH], steps(done)[changes.BACK]) == (StepState.FAILED, StepState.DONE)
    assert rigged.daemon.records.read()["org/silent"][0].outcome == "rolled back"


async def test_cancel_while_it_is_watched_takes_it_back_at_once(rigged):
    await rigged.operator.start("swap", {"drafter": "org/good"}, "ann")
    await rigged.until(
        lambda: any(
            step.name == changes.WATCH and step.state is StepState.RUNNING for step in rigged.operator.operation.steps
        )
    )
    assert rigged.operator.operation.cancellable
    rigged.operator.cancel("bob")
    done = await rigged.operator.wait()
    assert done.state is OperationState.ROLLED_BACK
    assert "cancelled while it was watched" in done.message
    assert (rigged.live.drafter, rigged.engine.drafter) == ("org/a", "org/a")
    await rigged.do("swap", drafter="org/good")
    assert rigged.live.drafter == "org/good"


async def test_a_way_back_that_fails_is_said(rigged):
    rigged.live.broken = "org/a"
    done = await rigged.do("swap", drafter="org/silent")
    assert done.state is OperationState.FAILED
    assert "could not be brought back" in done.message


async def test_an_idle_rig_keeps_it_unproven(rigged):
    rigged.daemon.guarded._sample = lambda: rigged.live.sample(running=0.0)
    done = await rigged.do("swap", drafter="org/silent")
    assert done.state is OperationState.DONE
    assert "not proven" in done.message
    assert rigged.daemon.records.read() == {}


async def test_by_restart_the_former_drafter_is_launched_again(rigged, monkeypatch):
    monkeypatch.setattr(
        type(rigged.live), "capabilities", lambda self: rig.ProbeStatus(present=True, swap_why="no", depth_why="no")
    )
    first = rigged.pid
    monkeypatch.setattr(rigged.daemon.guarded, "_sample", lambda: _at(rigged))
    done = await rigged.do("swap", drafter="org/silent")
    assert done.state is OperationState.ROLLED_BACK, done.message
    assert "accept_len 1.00 is below 1.60" in done.message
    assert rigged.engine.drafter == "org/a"
    assert rigged.pid != first
    assert steps(done)[changes.BACK] is StepState.DONE


def _at(rigged):
    rigged.live.drafter = rigged.engine.drafter or "org/a"
    return rigged.live.sample()


async def test_a_depth_is_watched_when_asked_for(rigged):
    done = await rigged.do("depth", depth=3, watch=True)
    assert done.state is OperationState.DONE, done.message
    assert "holds" in done.message
    rigged.live.sample_is_bad = True
    real = rigged.live.sample

    def worse():
        rigged.live.drafter = "org/silent" if rigged.live.now == 1 else "org/a"
        return real()

    rigged.daemon.guarded._sample = worse
    done = await rigged.do("depth", depth=1, watch=True)
    assert done.state is OperationState.ROLLED_BACK
    assert (rigged.live.now, rigged.live.pinned) == (3, 3)
    assert rigged.supervisor.record.configuration.depth == 3


def test_records_keep_the_best_and_survive_a_damaged_file(tmp_path):
    records = Records(tmp_path)
    for number in range(KEPT + 10):
        records.add("d", Record(at_s=float(number), accept_len=2.0, tok_s=100.0 if number == 0 else 50.0))
    kept = records.read()["d"]
    assert (len(kept), kept[0].at_s, kept[-1].at_s) == (KEPT, 0.0, KEPT + 9.0)
    assert summary(kept).best.tok_s == 100.0
    (tmp_path / "drafter-records.json").write_text("{torn")
    assert records.read() == {}
    assert summary(()) is None
