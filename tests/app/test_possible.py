"""Which actions are possible when: a table, and the arithmetic of the depth keys."""

from __future__ import annotations

import msgspec
import pytest

from console import rig
from console.screens.possible import CHECKED, Now, next_depth, possible
from tests.app.fake import figure, idle, operation, serving, with_engine

STATE = rig.EngineState


def now(snapshot: rig.Snapshot | None, *, connected: bool = True, read_only: bool = False) -> set[str]:
    state = Now(snapshot, connected, read_only)
    return {action for action in CHECKED if possible(action, state)}


def test_before_the_first_snapshot_nothing_is_possible() -> None:
    assert now(None) == set()


def test_without_an_engine_only_a_launch_makes_sense() -> None:
    assert now(idle()) == {"freeze", "targets", "history", "launch"}


def test_a_serving_engine() -> None:
    assert now(serving()) == {
        "depth_down",
        "depth_up",
        "log",
        "filter_log",
        "save",
        "restart",
        "stop",
        "freeze",
        "drafters",
        "targets",
        "history",
        "swap",
        "launch",
        "baseline",
        "environment",
    }


def test_without_speculation_there_is_no_depth() -> None:
    plain = with_engine(serving(), algorithm="", depth_launch=None)
    found = now(msgspec.structs.replace(plain, acceptance=rig.Acceptance()))
    assert not found & {"depth_down", "depth_up"}
    assert "stop" in found


def test_while_an_operation_runs_it_can_only_be_cancelled() -> None:
    found = now(serving(operation=operation()))
    assert "cancel" in found
    assert not found & {"depth_down", "depth_up", "restart", "swap", "launch"}
    assert "cancel" not in now(serving(operation=operation(cancellable=False)))
    assert "cancel" not in now(serving(operation=operation(state=rig.OperationState.DONE)))


def test_an_attached_engine_is_only_watched() -> None:
    attached = with_engine(serving(), attached=True, profile="", log_path="")
    assert now(attached) == {"freeze", "drafters", "targets", "history", "detach", "launch"}
    live = msgspec.structs.replace(attached, probe=rig.ProbeStatus(present=True, depth_live=True))
    assert {"depth_down", "depth_up"} <= now(live)


@pytest.mark.parametrize("state", [STATE.STARTING, STATE.DEAD, STATE.STOPPED, STATE.STOPPING])
def test_states(state: rig.EngineState) -> None:
    found = now(with_engine(serving(), state=state))
    assert ("launch_view" in found) is (state in {STATE.STARTING, STATE.DEAD})
    assert ("stop" in found) is (state is STATE.STARTING)
    assert ("restart" in found) is (state in {STATE.DEAD, STATE.STOPPED})
    assert not found & {"depth_up", "swap"}


def test_without_a_connection_or_right_nothing_changes_the_rig() -> None:
    writing = {
        "baseline",
        "calibrate",
        "depth_down",
        "depth_up",
        "restart",
        "stop",
        "swap",
        "launch",
        "cancel",
        "detach",
    }
    assert not now(serving(operation=operation()), connected=False) & writing
    assert not now(serving(), read_only=True) & writing
    agent = msgspec.structs.replace(serving().agent, read_only=True)
    assert not now(serving(agent=agent)) & writing


def test_calibrate_needs_live_depths() -> None:
    probe = rig.ProbeStatus(present=True, depth_live=True)
    live = with_engine(serving(probe=probe), candidate_steps=(0, 1, 3))
    assert "calibrate" in now(live)
    assert "calibrate" not in now(serving(probe=probe))
    assert "calibrate" not in now(with_engine(serving(), candidate_steps=(0, 1, 3)))
    assert not {"baseline", "calibrate"} & now(with_engine(live, state=STATE.PAUSED))


@pytest.mark.parametrize(
    ("steps", "depth", "direction", "expected"),
    [
        ((), 2.0, 1, 3),
        ((), 2.0, -1, 1),
        ((), 1.0, -1, None),
        ((0, 1, 3, 5), 3.0, 1, 5),
        ((0, 1, 3, 5), 3.0, -1, 1),
        ((5, 3, 1, 0), 2.0, 1, 3),
        ((0, 1, 3, 5), 5.0, 1, None),
        ((0, 1, 3, 5), 0.0, -1, None),
        ((0, 1, 3, 5), 9.0, -1, 5),
    ],
)
def test_neighbouring_depths(steps: tuple[int, ...], depth: float, direction: int, expected: int | None) -> None:
    snapshot = with_engine(serving(acceptance=rig.Acceptance(depth=figure(depth))), candidate_steps=steps)
    assert next_depth(snapshot, direction) == expected


def test_depth_counts_from_the_launch_when_nothing_newer_is_known() -> None:
    snapshot = with_engine(serving(acceptance=rig.Acceptance()), depth_launch=4)
    assert next_depth(snapshot, 1) == 5
    assert next_depth(snapshot, 1, start=7) == 8
