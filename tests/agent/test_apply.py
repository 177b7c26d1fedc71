"""Applying a profile: sorted into live and restart, done, and seen as running."""

import msgspec
import pytest

from console.agent import running
from console.agent.configuration import Configuration
from console.agent.running import Reach
from console.rig import OperationState
from profiles.schema import Speculation, TargetsSection
from tests.agent.control import Live, controlled, profile


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLANG_CONSOLE_HOME", str(tmp_path))


def changed(found, name="other", *, targets=None, engine=None, **speculation):
    spec = msgspec.structs.replace(found.speculation, **speculation)
    made = msgspec.structs.replace(found, name=name, speculation=spec)
    if targets is not None:
        made = msgspec.structs.replace(made, targets=targets)
    if engine is not None:
        made = msgspec.structs.replace(made, engine=msgspec.structs.replace(made.engine, **engine))
    return made


async def test_depth_and_goals_are_live(tmp_path):
    live = Live()
    async with controlled(tmp_path, live=live) as rigged:
        found = await rigged.up()
        goals = TargetsSection(goals_tok_s=(150.0,))
        wanted = rigged.add(changed(found, targets=goals, steps=3))
        preview = await rigged.operator.preview("apply", {"profile": "other"})
        assert preview.path == "live"
        assert [change.what for change in preview.changes] == [
            "profile",
            "speculation.steps (live)",
            "targets.goals_tok_s (console only)",
        ]
        pid = rigged.pid
        done = await rigged.do("apply", profile="other")
        assert done.state is OperationState.DONE, done.message
        assert (rigged.pid, live.pinned) == (pid, 3)
        assert rigged.daemon.running() == Configuration(wanted)
        assert rigged.measure.profile == wanted
        again = await rigged.operator.preview("apply", {"profile": "other"})
        assert "runs already" in again.refused


async def test_one_key_that_cannot_change_live_makes_it_a_restart(tmp_path):
    async with controlled(tmp_path, live=Live()) as rigged:
        found = await rigged.up()
        rigged.add(changed(found, steps=3, engine={"stop_timeout_s": 4.0, "args": ("--max-running-requests", "8")}))
        preview = await rigged.operator.preview("apply", {"profile": "other"})
        assert preview.path == "restart"
        assert "engine.args cannot change while the engine runs" in preview.path_why
        assert {change.what for change in preview.changes} >= {
            "engine.stop_timeout_s (console only)",
            "engine.args (restart)",
            "speculation.steps (restart)",
        }
        pid = rigged.pid
        done = await rigged.do("apply", profile="other")
        assert done.state is OperationState.DONE, done.message
        assert rigged.pid != pid
        assert rigged.daemon.running().profile.name == "other"


async def test_a_depth_that_is_not_prebuilt_is_a_restart(tmp_path):
    async with controlled(tmp_path, live=Live(steps=(0, 1, 2))) as rigged:
        found = await rigged.up()
        rigged.add(changed(found, steps=3))
        preview = await rigged.operator.preview("apply", {"profile": "other"})
        assert preview.path == "restart"
        assert preview.path_why == "depth 3 was not prebuilt (prebuilt: 0, 1, 2)"


async def test_nothing_runs(tmp_path):
    async with controlled(tmp_path, live=Live()) as rigged:
        rigged.add(profile())
        preview = await rigged.operator.preview("apply", {"profile": "fake"})
        assert "no engine of this rig runs" in preview.refused


def test_live_overrides_belong_to_what_runs():
    found = profile(drafter="/d/a", steps=2)
    tree = changed(found, "tree", topk=4, draft_tokens=16)
    assert running.as_profile(Configuration(found)) == found
    now = running.as_profile(Configuration(found, depth=3, drafter="/d/b"))
    assert (now.speculation.steps, now.speculation.drafter, now.speculation.draft_tokens) == (3, "/d/b", None)
    assert running.as_profile(Configuration(tree, depth=3)).speculation.draft_tokens == 16
    assert running.as_profile(Configuration(found, depth=0)).speculation.algorithm == "EAGLE3", "off, not forgotten"


def test_reach_of_keys():
    found = profile(steps=2)
    without = msgspec.structs.replace(found, speculation=Speculation())
    reach = {step.key: step.reach for step in running.steps(found, without)}
    assert reach["speculation.steps"] is Reach.RESTART, "no depth at all is another engine"
    assert reach["speculation.algorithm"] is Reach.RESTART
    other = changed(found, drafter="/d/b", drafters=("/d/b",), engine={"restart": "on-crash", "restart_limit": 5})
    reach = {step.key: step.reach for step in running.steps(found, other)}
    assert reach == {
        "speculation.drafter": Reach.DRAFTER,
        "speculation.drafters": Reach.NOTHING,
        "engine.restart": Reach.NOTHING,
        "engine.restart_limit": Reach.NOTHING,
    }
