"""The restart policy: decided by arithmetic, carried out as an operation everybody sees."""

import os
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console import rig
from console.agent import recovery, restarts
from console.engine import causes
from console.errors import ConsoleError
from console.rig import EngineState, OperationState
from profiles import assign
from profiles.schema import EngineSection, Profile
from tests.agent.control import controlled, profile

NOW = 1_800_000_000.0
CRASH = rig.Failure("killed", "killed by SIGKILL")
POLICY = EngineSection(restart="on-crash", restart_limit=3, restart_window_s=600.0)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLANG_CONSOLE_HOME", str(tmp_path))
    monkeypatch.setattr(restarts, "FIRST_WAIT_S", 0.05)
    return tmp_path


def decide(policy=POLICY, cause=CRASH, launches=(), **how):
    usual = {"was_ready": True, "by_policy": False, "watched": True}
    return restarts.decide(policy, cause, launches_at_s=launches, now_s=NOW, **{**usual, **how})


def test_never_is_the_default_and_says_nothing():
    assert decide(EngineSection()) == restarts.Decision(None)


def test_waits_double_and_end(monkeypatch):
    monkeypatch.setattr(restarts, "FIRST_WAIT_S", 5.0)
    assert [restarts.backoff_s(n) for n in range(8)] == [5, 10, 20, 40, 80, 160, 300, 300]
    assert restarts.backoff_s(10**6) == 300
    found = decide(launches=(NOW - 700, NOW - 500, NOW - 5))
    assert (found.wait_s, found.attempt) == (20, 3), "the one before the window does not count"


def test_the_limit_ends_it():
    found = decide(launches=(NOW - 3, NOW - 2, NOW - 1))
    assert found.wait_s is None
    assert found.why == "it was launched again 3 times within 600 s: the limit is reached"


@pytest.mark.parametrize("kind", sorted(restarts.REPEATING))
def test_a_cause_that_repeats_is_not_tried(kind):
    found = decide(cause=rig.Failure(kind, "words", advice="mend it"))
    assert found.wait_s is None
    assert "mend it" in found.why


def test_the_kinds_that_repeat_are_kinds_there_are():
    known = {rule.kind for rule in causes.RULES} | {"bad-arguments", "launch"}
    assert known >= restarts.REPEATING
    transient = {"killed", "crashed", "oom", "nccl", "nccl-timeout", "hang", "gpu-lost", "child-failed", "host-memory"}
    assert transient & known == transient
    assert not transient & restarts.REPEATING


def test_who_launched_it_and_who_saw_it_matter():
    assert "had not come up" in decide(was_ready=False).why
    assert decide(was_ready=False, by_policy=True).wait_s is not None
    assert "no agent watched" in decide(watched=False).why


@given(
    ages=st.lists(st.floats(0, 1e6), max_size=30),
    limit=st.integers(1, 10),
    window=st.floats(1, 1e6),
)
def test_never_more_than_the_limit_within_the_window(ages, limit, window):
    policy = EngineSection(restart="on-crash", restart_limit=limit, restart_window_s=window)
    found = decide(policy, launches=[NOW - age for age in ages])
    within = sum(NOW - window < NOW - age for age in ages)
    assert (found.wait_s is None) == (within >= limit)
    if found.wait_s is not None:
        assert 1 <= found.attempt <= limit
        assert 0 < found.wait_s <= 300


def test_the_profile_takes_two_words():
    good = assign.assigned(Profile(name="a"), ["engine.restart=on-crash"])
    assert good.engine.restart == "on-crash"
    with pytest.raises(ConsoleError, match=r'engine.restart: must be "never" or "on-crash"'):
        assign.assigned(Profile(name="a"), ["engine.restart=always"])
    with pytest.raises(ConsoleError, match=r"engine.restart_limit: must be >= 1"):
        assign.assigned(Profile(name="a"), ["engine.restart_limit=0"])


# ---------------------------------------------------------------------------------------------- with an engine


def texts(rig_):
    return [event.text for event in rig_.measure.events]


async def test_killed_and_launched_again(tmp_path):
    async with controlled(tmp_path) as rig_:
        await rig_.up(restart="on-crash")
        first = rig_.pid
        os.kill(first, signal.SIGKILL)
        await rig_.until(lambda: rig_.supervisor.ready and rig_.pid != first)
        done = await rig_.operator.wait()
        assert (done.by, done.kind, done.state) == ("restart policy", "recover", OperationState.DONE)
        assert done.title == "launch fake again after its end (attempt 1 of 3)"
        assert done.steps[0].name == recovery.WAIT
        assert any("launching it again" in text and "attempt 1 of 3" in text for text in texts(rig_))
        assert rig_.supervisor.record.by == "restart policy"


async def test_the_limit_holds_over_deaths(tmp_path):
    async with controlled(tmp_path) as rig_:
        await rig_.up(restart="on-crash", restart_limit=2)
        for _ in range(2):
            before = rig_.pid
            os.kill(before, signal.SIGKILL)
            await rig_.until(lambda before=before: rig_.supervisor.ready and rig_.pid != before)
            await rig_.operator.wait()
        os.kill(rig_.pid, signal.SIGKILL)
        await rig_.until(lambda: any("the limit is reached" in text for text in texts(rig_)))
        assert rig_.engine.state is EngineState.DEAD
        assert sum(op.kind == "recover" for op in rig_.measure.operations.values()) == 2


async def test_a_stop_is_a_stop(tmp_path):
    async with controlled(tmp_path) as rig_:
        await rig_.up(restart="on-crash")
        await rig_.do("stop")
        await rig_.up(restart="on-crash")
        os.kill(rig_.pid, signal.SIGTERM)  # somebody else's
        await rig_.until(lambda: rig_.engine.state is EngineState.STOPPED)
        assert not rig_.operator.running
        assert [op.kind for op in rig_.measure.operations.values()] == ["launch", "stop", "launch"]


async def test_a_launch_that_fails_is_left_to_who_asked(tmp_path):
    async with controlled(tmp_path) as rig_:
        found = rig_.add(profile(restart="on-crash", fake={"fail": "out-of-memory"}))
        done = await rig_.do("launch", profile=found.name)
        assert done.state is OperationState.FAILED
        await rig_.until(lambda: any("it had not come up" in text for text in texts(rig_)))
        assert len(rig_.measure.operations) == 1


async def test_a_relaunch_that_fails_goes_on_to_the_limit(tmp_path):
    """The drafter's disk is away after the crash: every start dies, and it is given up at the limit."""
    async with controlled(tmp_path) as rig_:
        await rig_.up(restart="on-crash", restart_limit=2, fake={"start_s": 0.1})
        record = rig_.supervisor.record
        broken = profile(port=record.configuration.profile.engine.port, restart="on-crash", restart_limit=2)
        env = profile(fake={"fail": "out-of-memory"}).engine.env
        import msgspec

        broken = msgspec.structs.replace(broken, engine=msgspec.structs.replace(broken.engine, env=env))
        rig_.supervisor.remember(msgspec.structs.replace(record.configuration, profile=broken))
        os.kill(rig_.pid, signal.SIGKILL)
        await rig_.until(lambda: any("the limit is reached" in text for text in texts(rig_)), timeout_s=15)
        ends = [op.state for op in rig_.measure.operations.values() if op.kind == "recover"]
        assert ends == [OperationState.FAILED] * 2


async def test_cancel_is_heeded(tmp_path, monkeypatch):
    monkeypatch.setattr(restarts, "FIRST_WAIT_S", 60.0)
    async with controlled(tmp_path) as rig_:
        await rig_.up(restart="on-crash")
        os.kill(rig_.pid, signal.SIGKILL)
        await rig_.until(lambda: rig_.operator.running)
        assert rig_.operator.operation.cancellable
        with pytest.raises(ConsoleError, match=r"busy: launch fake again after its end .* asked for by restart policy"):
            await rig_.operator.start("launch", {"profile": "fake"}, "ann")
        rig_.operator.cancel("ann")
        done = await rig_.operator.wait()
        assert done.state is OperationState.CANCELLED
        assert rig_.engine.state is EngineState.DEAD
        assert not rig_.operator.running
        await rig_.do("launch", profile="fake")
        assert rig_.engine.state is EngineState.READY


async def test_its_arguments_are_checked(tmp_path):
    async with controlled(tmp_path) as rig_:
        assert (await rig_.operator.preview("recover", {})).refused.startswith("nothing was launched")
        for wait in (-1, float("nan"), 1e9, "5", True):
            with pytest.raises(ConsoleError, match="no time to wait"):
                await rig_.operator.preview("recover", {"wait_s": wait})
        await rig_.up()
        assert (await rig_.operator.preview("recover", {})).refused == "an engine runs"
