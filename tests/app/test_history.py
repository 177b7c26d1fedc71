"""The history screen: what it asks the agent for, what it draws, how its keys move through time."""

from __future__ import annotations

import msgspec
import pytest

from console import rig
from console.errors import ConsoleError
from console.screens.deck import DeckScreen
from console.screens.history import RANGES_S, HistoryScreen
from tests.app.fake import AT_S, FakeAgent, idle, make, screen_text, serving, shows, until

SIZE = (120, 40)


def past() -> dict[str, list[dict[str, object]]]:
    operation = rig.Operation(
        id="a",
        kind="depth",
        title="depth [b]3[/b]",
        by="ann@pts/1",
        state=rig.OperationState.ROLLED_BACK,
        started_at_s=AT_S - 1000,
        ended_at_s=AT_S - 988,
        before="depth 2",
        after="depth 3",
        message="accept_len fell",
    )
    events = [
        rig.Event(AT_S - 500, "error", "the engine is dead: \x1b[31mboom"),
        rig.Event(AT_S - 400, "info", "said hello"),
    ]
    return {
        "operations": [msgspec.to_builtins(operation), {"id": "of another version"}],
        "events": [msgspec.to_builtins(event) for event in events],
    }


async def test_charts_marks_and_list() -> None:
    agent = FakeAgent(past=past())
    app = make(agent)
    async with app.run_test(size=SIZE) as pilot:
        agent.push(serving())
        await shows(app, "READY")
        await pilot.press("h")
        await shows(app, "rolled back depth [b]3[/b] in 12s by ann@pts/1: depth 2 → depth 3")
        await shows(app, "accept_len fell")
        await shows(app, "✗ the engine is dead: \\x1b[31mboom")
        text = screen_text(app)
        assert "said hello" not in text
        assert "tok/s" in text
        assert "— nothing was recorded" in text
        marks = next(line for line in text.splitlines() if "▲ done ✗ fault" in line).partition("fault")[2]
        assert marks.index("▲") < marks.index("✗")
        assert [kind for kind, _, _ in agent.past_asked[:2]] == ["operations", "events"]
        await pilot.press("escape")
        await until(lambda: isinstance(app.screen, DeckScreen), "the deck")


async def test_keys_choose_range_and_place() -> None:
    agent = FakeAgent(past=past())
    app = make(agent)
    async with app.run_test(size=SIZE) as pilot:
        agent.push(serving())
        await shows(app, "READY")
        await pilot.press("h")
        await until(lambda: agent.charts_asked, "the first chart")

        async def asked(*keys: str) -> tuple[float, float, float]:
            count = len(agent.charts_asked)
            await pilot.press(*keys)
            await until(lambda: len(agent.charts_asked) > count, f"the chart after {keys}")
            return agent.charts_asked[-1]

        for key, seconds in zip("1234", RANGES_S.values(), strict=True):
            since, until_s, step = await asked(key)
            assert (until_s, until_s - since) == (AT_S, seconds)
            assert 20 <= seconds / step <= 1000
        since, until_s, _ = await asked("left")
        assert until_s == AT_S - RANGES_S["7d"] / 2
        since, until_s, _ = await asked("1")
        assert until_s == AT_S - RANGES_S["7d"] / 2, "the place stays when the range changes"
        assert until_s - since == 3600
        _, until_s, _ = await asked("right")
        assert until_s == AT_S - RANGES_S["7d"] / 2 + 1800
        _, until_s, _ = await asked("0")
        assert until_s == AT_S
        _, until_s, _ = await asked("right")
        assert until_s == AT_S, "there is nothing after now"


async def test_an_agent_that_cannot_answer_is_one_line() -> None:
    class Broken(FakeAgent):
        def series(self, since: float, until: float, step: float) -> None:
            raise ConsoleError("the history cannot be read", why="file is not a database")

    agent = Broken()
    app = make(agent)
    async with app.run_test(size=SIZE) as pilot:
        agent.push(idle())
        await shows(app, "NO ENGINE")
        await pilot.press("h")
        await shows(app, "the history cannot be read - file is not a database")


async def test_there_is_no_history_without_an_agent() -> None:
    agent = FakeAgent(refuse_connects=1000)
    app = make(agent)
    async with app.run_test(size=SIZE) as pilot:
        await shows(app, "NO AGENT")
        assert not app.can("history")
        await pilot.press("h")
        assert isinstance(app.screen, DeckScreen)


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (200, 60)])
async def test_it_fits(size: tuple[int, int]) -> None:
    agent = FakeAgent(past=past())
    app = make(agent)
    async with app.run_test(size=size) as pilot:
        agent.push(serving())
        await shows(app, "READY")
        await pilot.press("h")
        await until(lambda: isinstance(app.screen, HistoryScreen), "the screen")
        await shows(app, "tok/s")
        assert len(screen_text(app).splitlines()) == size[1]
