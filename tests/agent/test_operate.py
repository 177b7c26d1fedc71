"""Operations: one at a time, shown before, told step by step, taken back when they do not work out."""

import asyncio

import pytest

from console import rig
from console.agent import changes
from console.agent.changes import Judgement
from console.agent.configuration import Configuration
from console.agent.operate import BusyError, NoReturnError, Operator, RefusedError
from console.errors import ConsoleError
from console.rig import EngineState, OperationState, StepState
from profiles.schema import EngineSection, Profile, Speculation
from tests.agent.control import Live, controlled, profile


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLANG_CONSOLE_HOME", str(tmp_path))


@pytest.fixture(autouse=True)
def verdict(monkeypatch):
    """The drafters' room has its own tests; here every drafter fits unless a test says otherwise."""
    monkeypatch.setattr(changes.Judge, "__call__", lambda self, drafter, **_: Judgement())


# ------------------------------------------------------------------------------------------------- the machinery


class Waiting:
    """An action that waits to be let go."""

    def __init__(self):
        self.go = asyncio.Event()
        self.past = asyncio.Event()

    async def preview(self, args):
        return rig.Preview("wait", "wait for it", refused=args.get("refused", ""), expected_s=1.0)

    async def run(self, args, run):
        run.plan(["first", "never", "second"])
        run.step("first")
        if args.get("past"):
            run.cancellable(possible=False)
        self.past.set()
        await self.go.wait()
        run.step("second", "more")
        if error := args.get("error"):
            raise error
        return "as wanted"


@pytest.fixture
async def waiting():
    return Waiting()


@pytest.fixture
async def operator(waiting):
    kept = []
    made = Operator({"wait": waiting}, record=kept.append)
    made.kept = kept
    yield made
    await made.close()


async def test_steps_are_told_timed_and_kept(operator, waiting):
    begun = await operator.start("wait", {}, "ann")
    assert (begun.state, begun.by, begun.expected_s) == (OperationState.RUNNING, "ann", 1.0)
    await waiting.past.wait()
    assert [step.state for step in operator.operation.steps] == [
        StepState.RUNNING,
        StepState.WAITING,
        StepState.WAITING,
    ]
    waiting.go.set()
    done = await operator.wait()
    assert (done.state, done.message, done.cancellable) == (OperationState.DONE, "as wanted", False)
    assert [step.state for step in done.steps] == [StepState.DONE, StepState.SKIPPED, StepState.DONE]
    assert done.steps[0].seconds >= 0
    assert done.steps[1].seconds is None
    assert [entry.state for entry in operator.kept] == [OperationState.RUNNING, OperationState.DONE]
    assert {entry.id for entry in operator.kept} == {done.id}


async def test_a_second_one_is_refused_with_the_name_of_the_first(operator, waiting):
    await operator.start("wait", {}, "ann")
    with pytest.raises(BusyError, match="wait for it, asked for by ann"):
        await operator.start("wait", {}, "bob")
    assert len(operator.kept) == 1
    waiting.go.set()
    await operator.wait()
    await operator.start("wait", {}, "bob")


async def test_two_at_the_same_moment_are_one(operator):
    outcomes = await asyncio.gather(*(operator.start("wait", {}, name) for name in "ab"), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [rig.Operation, BusyError]


async def test_refused_and_unknown_ones_leave_nothing_behind(operator):
    with pytest.raises(RefusedError, match="not today"):
        await operator.start("wait", {"refused": "not today"}, "ann")
    with pytest.raises(ConsoleError, match="no operation 'nonsense'"):
        await operator.start("nonsense", {}, "ann")
    assert operator.kept == []
    assert operator.operation is None
    await operator.start("wait", {}, "ann")


async def test_cancel_up_to_the_point_of_no_return(operator, waiting):
    with pytest.raises(NoReturnError, match="no operation runs"):
        operator.cancel("bob")
    await operator.start("wait", {}, "ann")
    await waiting.past.wait()
    assert operator.operation.cancellable
    operator.cancel("bob")
    done = await operator.wait()
    assert done.state is OperationState.CANCELLED
    waiting.past.clear()
    await operator.start("wait", {"past": True}, "ann")
    await waiting.past.wait()
    assert not operator.operation.cancellable
    with pytest.raises(NoReturnError, match=r"point of no return \(first\)"):
        operator.cancel("bob")
    waiting.go.set()
    assert (await operator.wait()).state is OperationState.DONE


@pytest.mark.parametrize(
    ("error", "said"),
    [(ConsoleError("it broke", why="rust"), "it broke - rust"), (KeyError("x"), "the agent's own fault: KeyError")],
)
async def test_failures_free_the_slot_and_are_told(operator, waiting, error, said):
    waiting.go.set()
    await operator.start("wait", {"error": error}, "ann")
    done = await operator.wait()
    assert done.state is OperationState.FAILED
    assert said in done.message
    assert done.steps[-1].state is StepState.FAILED
    await operator.start("wait", {}, "bob")


async def test_who_asked_cannot_write_to_the_terminal(operator):
    begun = await operator.start("wait", {}, "ann\x1b[31m\n" + "x" * 500)
    assert begun.by.startswith("ann ")
    assert begun.by.isprintable()
    assert len(begun.by) < 100


# ------------------------------------------------------------------------------------------------- depth and drafter


async def test_depth_by_restart_and_back_to_speculation_from_zero(tmp_path):
    async with controlled(tmp_path) as rig_:
        await rig_.up()
        first = rig_.pid
        preview = await rig_.operator.preview("depth", {"depth": 3})
        assert (preview.path, preview.changes[0].before, preview.changes[0].after) == ("restart", "2", "3")
        assert preview.path_why == "no probe in this engine"
        assert preview.expected_s > 0
        done = await rig_.do("depth", depth=3)
        assert done.state is OperationState.DONE, done.message
        assert rig_.pid != first
        assert rig_.engine.depth_launch == 3

        done = await rig_.do("depth", depth=0)
        assert (rig_.engine.algorithm, rig_.engine.depth_launch) == ("", 0)
        assert "otherwise" not in done.message
        await rig_.do("depth", depth=1)
        assert (rig_.engine.algorithm, rig_.engine.drafter, rig_.engine.depth_launch) == ("EAGLE3", "org/a", 1)
        assert (await rig_.operator.preview("depth", {"depth": 1})).refused == "depth is 1 already"


@pytest.mark.parametrize("depth", [-1, 65, 1.5, True, "3", []])
async def test_what_is_no_depth_is_refused(tmp_path, depth):
    async with controlled(tmp_path) as rig_:
        with pytest.raises(ConsoleError, match="is no depth"):
            await rig_.operator.preview("depth", {"depth": depth})
        with pytest.raises(ConsoleError, match="is no depth"):
            await rig_.operator.preview("depth", {})


async def test_changes_want_a_ready_engine_that_speculates(tmp_path):
    async with controlled(tmp_path) as rig_:
        assert "no engine runs" in (await rig_.operator.preview("depth", {"depth": 1})).refused
        await rig_.up(steps=0)
        assert "has no speculation" in (await rig_.operator.preview("depth", {"depth": 1})).refused
        assert "has no speculation" in (await rig_.operator.preview("swap", {"drafter": "org/b"})).refused


async def test_swap_by_restart(tmp_path):
    async with controlled(tmp_path) as rig_:
        await rig_.up()
        folder = tmp_path / "drafter-b"
        folder.mkdir()
        assert "loaded already" in (await rig_.operator.preview("swap", {"drafter": "org/a"})).refused
        assert "no folder" in (await rig_.operator.preview("swap", {"drafter": str(tmp_path / "missing")})).refused
        done = await rig_.do("swap", drafter=str(folder))
        assert done.state is OperationState.DONE, done.message
        assert rig_.engine.drafter == str(folder)
        assert (done.before, done.after) == ("drafter org/a", f"drafter {folder}")


async def test_a_drafter_that_does_not_fit_is_refused_before_anything_is_touched(tmp_path, monkeypatch):
    async with controlled(tmp_path) as rig_:
        await rig_.up()
        pid = rig_.pid
        monkeypatch.setattr(
            changes.Judge, "__call__", lambda self, drafter, **_: Judgement("incompatible: hidden size")
        )
        with pytest.raises(RefusedError, match="hidden size"):
            await rig_.do("swap", drafter="org/b")
        assert rig_.pid == pid
        assert rig_.engine.state is EngineState.READY


async def test_a_new_start_that_fails_is_rolled_back_to_the_last_good_one(tmp_path):
    async with controlled(tmp_path) as rig_:
        await rig_.up(fake={"fail_drafter": "org/b"})
        done = await rig_.do("swap", drafter="org/b")
        assert done.state is OperationState.ROLLED_BACK
        assert "CUDA out of memory" in done.message
        assert (rig_.engine.state, rig_.engine.drafter) == (EngineState.READY, "org/a")
        states = {step.name: step.state for step in done.steps}
        assert states["bring back what ran before"] is StepState.DONE
        assert [step.state for step in done.steps].count(StepState.FAILED) >= 1
        assert rig_.measure.operations[done.id].state is OperationState.ROLLED_BACK


async def test_a_launch_can_be_taken_back_while_it_starts(tmp_path):
    async with controlled(tmp_path) as rig_:
        rig_.add(profile(fake={"start_s": 20.0}))
        await rig_.operator.start("launch", {"profile": "fake"}, "ann")
        await rig_.until(lambda: rig_.engine.state is EngineState.STARTING and rig_.operator.operation.cancellable)
        with pytest.raises(BusyError):
            await rig_.operator.start("stop", {}, "bob")
        rig_.operator.cancel("bob")
        done = await rig_.operator.wait()
        assert done.state is OperationState.CANCELLED
        assert rig_.engine.state is EngineState.STOPPED


async def test_a_restart_taken_back_while_it_starts_brings_back_what_ran(tmp_path):
    async with controlled(tmp_path) as rig_:
        await rig_.up(fake={"start_s": 0.4})
        await rig_.operator.start("depth", {"depth": 3}, "ann")
        await rig_.until(lambda: rig_.engine.state is EngineState.STARTING and rig_.operator.operation.cancellable)
        rig_.operator.cancel("bob")
        done = await rig_.operator.wait()
        assert done.state is OperationState.ROLLED_BACK
        assert "cancelled" in done.message
        assert (rig_.engine.state, rig_.engine.depth_launch) == (EngineState.READY, 2)


async def test_the_agents_end_leaves_a_start_alone(tmp_path):
    async with controlled(tmp_path) as rig_:
        rig_.add(profile(fake={"start_s": 20.0}))
        await rig_.operator.start("launch", {"profile": "fake"}, "ann")
        await rig_.until(lambda: rig_.engine.state is EngineState.STARTING)
        await rig_.operator.close()
        assert rig_.engine.state is EngineState.STARTING
        assert "agent ended" in next(iter(rig_.measure.operations.values())).message


async def test_depth_is_live_when_the_probe_can(tmp_path):
    live = Live()
    async with controlled(tmp_path, live=live) as rig_:
        await rig_.up()
        pid = rig_.pid
        preview = await rig_.operator.preview("depth", {"depth": 3})
        assert preview.path == "live"
        done = await rig_.do("depth", depth=3)
        assert (done.state, done.path, rig_.pid, live.pinned) == (OperationState.DONE, "live", pid, 3)
        assert rig_.supervisor.record.configuration.depth == 3
        await rig_.do("depth", depth=None)
        assert live.pinned is None
        preview = await rig_.operator.preview("depth", {"depth": 7})
        assert (preview.path, preview.path_why) == ("restart", "depth 7 was not prebuilt (prebuilt: 0, 1, 2, 3)")


async def test_an_order_without_effect_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(changes, "EFFECT_S", 0.2)
    async with controlled(tmp_path, live=Live(deaf=True)) as rig_:
        await rig_.up()
        done = await rig_.do("depth", depth=3)
        assert done.state is OperationState.FAILED
        assert "does not show depth 3" in done.message
        assert rig_.supervisor.record.configuration.depth is None


async def test_swap_is_live_when_the_probe_can(tmp_path):
    async with controlled(tmp_path, live=Live()) as rig_:
        await rig_.up()
        pid = rig_.pid
        done = await rig_.do("swap", drafter="org/b")
        assert (done.state, done.path, rig_.pid) == (OperationState.DONE, "live", pid)
        assert rig_.engine.drafter == "org/b"


# ------------------------------------------------------------------------------------------------- configurations


def configured(*args, candidate_steps=(), **spec):
    return Profile(
        name="p",
        engine=EngineSection(model="m", args=args),
        speculation=Speculation(algorithm="EAGLE3", drafter="org/a", candidate_steps=candidate_steps, **spec),
    )


def test_depth_wins_over_the_profiles_own_arguments():
    effective = Configuration(
        configured("--speculative-num-steps", "2", "--mem-fraction-static", "0.8", "--speculative-num-draft-tokens=3"),
        depth=4,
    ).effective()
    assert effective.engine.args == ("--mem-fraction-static", "0.8")
    assert (effective.speculation.steps, effective.speculation.draft_tokens) == (4, None)


def test_a_tree_keeps_its_width():
    effective = Configuration(configured(topk=4, steps=3, draft_tokens=16), depth=2).effective()
    assert (effective.speculation.steps, effective.speculation.draft_tokens) == (2, 16)


def test_depth_zero_is_no_speculation_unless_it_is_prebuilt():
    off = Configuration(configured("--speculative-eagle-topk", "1", candidate_steps=(1, 3)), depth=0).effective()
    assert (off.speculation.algorithm, off.speculation.candidate_steps, off.engine.args) == ("", (), ())
    tiers = Configuration(configured(candidate_steps=(0, 1, 3)), depth=0).effective()
    assert (tiers.speculation.algorithm, tiers.speculation.steps) == ("EAGLE3", 0)
    fixed = Configuration(configured(candidate_steps=(0, 1, 3)), depth=0, fixed=True).effective()
    assert fixed.speculation.algorithm == ""


def test_another_drafter_does_not_keep_the_revision():
    effective = Configuration(configured(revision="abc"), drafter="org/b").effective()
    assert (effective.speculation.drafter, effective.speculation.revision) == ("org/b", "")


def test_a_pinned_repository_is_given_to_sglang_in_two():
    effective = Configuration(configured(), drafter="org/b@" + "a" * 40).effective()
    assert (effective.speculation.drafter, effective.speculation.revision) == ("org/b", "a" * 40)
    folder = Configuration(configured(), drafter="/models/d@2").effective()
    assert (folder.speculation.drafter, folder.speculation.revision) == ("/models/d@2", "")
