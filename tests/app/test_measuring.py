"""Baseline, calibration and environment from the deck: what is asked, what is begun, what is shown of it."""

from __future__ import annotations

import pytest

from console import environment, rig
from console.agent.ledger import Entry
from console.calibration import Calibration, Cell, Speed
from console.errors import ConsoleError
from console.screens.calibration import CalibrationScreen
from console.screens.calibration_view import calibration_rows
from console.screens.deck import DeckScreen
from console.screens.environment import EnvironmentScreen
from console.screens.measure import arguments
from panels import glyphs
from panels.rows import width
from tests.app.fake import FakeAgent, make, operation, screen_text, serving, shows, until, with_engine

SIZE = (120, 36)


def live() -> rig.Snapshot:
    probe = rig.ProbeStatus(present=True, depth_live=True)
    return with_engine(serving(probe=probe), candidate_steps=(0, 1, 3))


def cell(depth: int, running: int, tok_s: float, half: float = 1.0, **more: object) -> Cell:
    stream = Speed(tok_s / running, (tok_s - half) / running, (tok_s + half) / running, 5)
    return Cell(depth, running, stream, Speed(tok_s, tok_s - half, tok_s + half, 5), **more)  # type: ignore[arg-type]


def story(**more: object) -> Calibration:
    """The story's figures: 82 tok/s without speculation, 30 ms cycles."""
    cells = (
        cell(0, 1, 82, accept_len=1.0, cycle_ms=12.2),
        cell(1, 1, 54, accept_len=1.5, cycle_ms=27.8),
        cell(3, 1, 61, accept_len=2.0, cycle_ms=30.0, draft_ms=1.5, verify_ms=25.0, extend_ms=1.0),
        cell(0, 16, 900),
        cell(3, 16, 1400, accept_len=2.0, cycle_ms=22.0),
        cell(1, 16, 1399, accept_len=1.5, cycle_ms=17.0, failed=2, requests=48),
    )
    return Calibration(1_790_000_000.0, "f00d", "/d/first", "shipped:ab12", "greedy, 256 tokens", cells, **more)  # type: ignore[arg-type]


def text(result: Calibration, cells: int, **more: object) -> str:
    rows = calibration_rows(result, cells, **more)  # type: ignore[arg-type]
    assert all(width(row) <= cells for row in rows)
    return "\n".join("".join(span for span, _ in row).rstrip() for row in rows)


async def test_calibrate_previews_what_is_typed_and_begins_what_is_shown() -> None:
    agent = FakeAgent(previews={"calibrate": rig.Preview("calibrate", "calibrate depths", "live")})
    app = make(agent)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        agent.push(live())
        await shows(app, "c calibrate")
        await pilot.press("c")
        await shows(app, "live: the engine keeps serving")
        assert agent.asked[-1][1]["concurrency"] == [1, 4, 16]
        assert "depths" not in agent.asked[-1][1], "empty: every prebuilt depth, which the agent knows"
        await pilot.press("end", ",", "6", "4", "tab", *"0,3")
        await until(lambda: agent.asked[-1][1].get("depths") == [0, 3], "the new preview")
        assert agent.begun == []
        await pilot.pause(0.1)
        await pilot.press("enter")
        await until(lambda: agent.begun, "the operation")
        wanted = {"concurrency": [1, 4, 16, 64], "depths": [0, 3], "repetitions": 3, "tokens": 256, "busy": 0}
        assert agent.begun == [("calibrate", {**wanted, "prompts": "shipped"})]
        await until(lambda: isinstance(app.screen, DeckScreen), "the deck")


async def test_what_is_refused_or_no_number_is_not_begun() -> None:
    agent = FakeAgent(previews={"baseline": rig.Preview("baseline", "baseline", refused="3 requests of others run")})
    app = make(agent)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        agent.push(live())
        await shows(app, "b baseline")
        await pilot.press("b")
        await shows(app, "not possible: 3 requests of others run")
        await pilot.press("enter")
        await pilot.press("end", "x")
        await shows(app, "requests at once: '1x' is no whole number")
        await pilot.press("enter", "escape")
        await until(lambda: isinstance(app.screen, DeckScreen), "the deck")
        assert agent.begun == []


def test_what_is_typed_becomes_arguments() -> None:
    typed = {
        "concurrency": " 1 4,16 ",
        "depths": "",
        "repetitions": "",
        "tokens": "64",
        "busy": "2",
        "prompts": " /p.jsonl ",
    }
    assert arguments("calibrate", typed) == {
        "concurrency": [1, 4, 16],
        "repetitions": 3,
        "tokens": 64,
        "busy": 2,
        "prompts": "/p.jsonl",
    }
    for bad in ({"tokens": "1 2"}, {"tokens": "-1"}, {"depths": "1,x"}, {"concurrency": "99999999999"}, {"busy": "٣"}):
        with pytest.raises(ConsoleError, match="whole number"):
            arguments("calibrate", typed | bad)


async def test_the_result_comes_when_a_calibration_of_this_console_is_done() -> None:
    agent = FakeAgent(previews={"calibrate": rig.Preview("calibrate", "calibrate", "live")})
    agent.kept = [Entry("old", "calibrate", "bob", "story", story())]
    agent.kept.append(Entry("new", "calibrate", "ann", "story", story(simulated=True)))
    app = make(agent)
    async with app.run_test(size=(140, 44), notifications=True) as pilot:
        agent.push(live())
        await shows(app, "c calibrate")
        elsewhere = operation("calibrate", id="elsewhere")
        agent.push(serving(operation=elsewhere))
        await shows(app, "C cancel")
        agent.push(serving(operation=operation("calibrate", id="elsewhere", state=rig.OperationState.DONE)))
        await until(lambda: "C cancel" not in screen_text(app), "its end")
        assert isinstance(app.screen, DeckScreen), "somebody else's result does not cover the screen"
        agent.push(live())
        await shows(app, "c calibrate")
        await pilot.press("c")
        await shows(app, "live: the engine keeps serving")
        await pilot.press("enter")
        await until(lambda: agent.begun, "the operation")
        agent.push(serving(operation=operation("calibrate", state=rig.OperationState.DONE)))
        await until(lambda: isinstance(app.screen, CalibrationScreen), "the result")
        await shows(app, "run 2 of 2")
        await shows(app, "SIMULATED")
        await pilot.press("left")
        await shows(app, "run 1 of 2")
        assert "SIMULATED" not in screen_text(app)
        await pilot.press("left", "escape")
        await until(lambda: isinstance(app.screen, DeckScreen), "the deck")


async def test_no_run_and_no_agent_are_said() -> None:
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        agent.push(live())
        await shows(app, "c calibrate")
        await pilot.press("c", "f2")
        await shows(app, "no calibration of this rig yet")


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("cells", [60, 78, 118, 200])
def test_a_run_says_what_follows_from_it(cells: int, ascii_only: bool) -> None:
    glyphs.use(ascii=ascii_only)
    shown = text(story(), cells, goals=(100.0, 150.0))
    if ascii_only:
        assert shown.isascii()
    flat = " ".join(shown.split())
    assert "1 running: depth 0, 82.0 tok/s" in flat
    assert "; speculation loses" in flat
    assert "16 running: depth 3, 1400 tok/s, 1.56" in flat
    assert "not distinguishable from depth 1" in flat
    assert "150 tok/s: unreachable at this depth: it takes depth 4 or more" in flat
    assert "100 tok/s: an accuracy of 81.1% a token, or a verify of 15.0 ms instead of 25.0" in flat
    if cells == 200:
        assert "2 of 48 failed" in flat
        assert "66.7 9%" in flat, "61 of the predicted 66.7 tok/s"


def test_where_speculation_starts_to_lose_and_where_that_is_not_known() -> None:
    assert "No load was found from which" in text(story(), 118)
    losing = Calibration(1.0, "f", "d", "p", "s", (cell(0, 1, 80), cell(2, 1, 120), cell(0, 32, 900), cell(2, 32, 700)))
    assert "Speculation loses from 32 running on" in text(losing, 118)
    without = Calibration(1.0, "f", "d", "p", "s", (cell(2, 1, 120),))
    assert "not known: depth 0 was not among the depths" in text(without, 118)
    dry = Calibration(1.0, "f", "d\x1b[31m", "p", "s", (cell(2, 1, 120),), dry=True)
    assert "acceptance was forced" in text(dry, 118)
    assert "\x1b" not in text(dry, 118)


async def test_environment_names_differences_first() -> None:
    agent = FakeAgent()
    workers = {rank: {"NCCL_P2P_LEVEL": "SYS", "CUDA_DEVICE_MAX_CONNECTIONS": "8"} for rank in range(4)}
    workers[3].pop("NCCL_P2P_LEVEL")
    agent.matrix = environment.matrix(
        to_set={"NCCL_P2P_LEVEL": "SYS"}, launcher={"NCCL_P2P_LEVEL": "SYS"}, workers=workers
    )
    app = make(agent)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        agent.push(serving())
        await shows(app, "e environment")
        await pilot.press("e")
        await until(lambda: isinstance(app.screen, EnvironmentScreen), "the environment")
        await shows(app, "worker 3 lacks NCCL_P2P_LEVEL")
        await shows(app, "SGLang: always 8")
        await shows(app, "0:SYS 1:SYS 2:SYS 3:—")
        agent.error = ConsoleError("no agent answers")
        await pilot.press("f5")
        await shows(app, "no agent answers")
