"""The log screen: follows, holds, searches, filters, copies; a flood neither grows it nor stalls it."""

from __future__ import annotations

import asyncio
import re
import time

import pytest

from console.app import ConsoleApp
from console.errors import ConsoleError
from console.screens.log import PAGE_LINES, LogScreen
from console.screens.logbook import KEPT_LINES
from tests.app.fake import FakeAgent, make, screen_text, serving, shows, until

SIZE = (100, 30)


async def opened(app: ConsoleApp, pilot: object, agent: FakeAgent, key: str = "l") -> LogScreen:
    agent.push(serving())
    await shows(app, "READY")
    await pilot.press(key)  # type: ignore[attr-defined]
    await until(lambda: isinstance(app.screen, LogScreen), "the log")
    assert isinstance(app.screen, LogScreen)
    return app.screen


async def test_follows_the_end_and_holds_where_one_reads() -> None:
    agent = FakeAgent()
    agent.log_file.count = 5000
    app = make(agent)
    async with app.run_test(size=SIZE) as pilot:
        await opened(app, pilot, agent)
        await shows(app, "line 4999")
        await shows(app, "FOLLOWING")
        agent.log_file.count = 5010
        await shows(app, "line 5009")
        await pilot.press("pageup")
        await shows(app, "HELD")
        agent.log_file.count = 5100
        before = screen_text(app).splitlines()[3]
        await pilot.pause(1.2)
        assert screen_text(app).splitlines()[3] == before
        await pilot.press("f")
        await shows(app, "line 5099")


async def test_pages_back_to_the_beginning_and_forward_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.screens.log.PAGE_LINES", 100)
    agent = FakeAgent()
    agent.log_file.count = 5000
    app = make(agent)
    async with app.run_test(size=SIZE) as pilot:
        await opened(app, pilot, agent)
        await shows(app, "line 4999")
        await pilot.press("home")
        await shows(app, "line 0 ")
        for _ in range(6):
            await pilot.press("pagedown")
        await until(lambda: _last(app) > 110, "the second page")
        await pilot.press("end")
        await shows(app, "line 4999")


def _last(app: ConsoleApp) -> int:
    return max((int(number) for number in re.findall(r"line (\d+)", screen_text(app))), default=0)


async def test_filter_looks_through_the_whole_file() -> None:
    agent = FakeAgent()
    agent.log_file.count = 50_000
    agent.log_file.text = lambda i: f"line {i} " + ("[bold]CUDA error[/]" if i in (77, 40_000) else "fine")
    app = make(agent)
    async with app.run_test(size=SIZE) as pilot:
        await opened(app, pilot, agent, "slash")
        await pilot.press(*"cuda error", "enter")
        await shows(app, "line 77 [bold]CUDA error[/]", timeout_s=15)
        await shows(app, "line 40000 [bold]CUDA error[/]")
        await shows(app, "only lines with 'cuda error': 2")
        assert "fine" not in screen_text(app)
        await pilot.press("escape")
        await shows(app, "line 49999 fine")
        await pilot.press("escape")
        await until(lambda: not isinstance(app.screen, LogScreen), "the deck")


async def test_filter_that_finds_nothing_says_so() -> None:
    agent = FakeAgent()
    agent.log_file.count = 10
    app = make(agent)
    async with app.run_test(size=SIZE) as pilot:
        await opened(app, pilot, agent, "slash")
        await pilot.press(*"nowhere", "enter")
        await shows(app, "no line holds 'nowhere'")


async def test_search_among_all_lines_goes_back_beyond_memory() -> None:
    agent = FakeAgent()
    agent.log_file.count = 30_000
    agent.log_file.text = lambda i: f"line {i} " + ("needle" if i in (100, 29_990) else "hay")
    app = make(agent)
    async with app.run_test(size=SIZE) as pilot:
        await opened(app, pilot, agent, "slash")
        await pilot.press(*"needle", "enter")
        await shows(app, "line 100 needle", timeout_s=15)
        await pilot.press("m")
        await shows(app, "29999 hay")
        await pilot.press("N")
        await shows(app, ">*line 29990 needle")
        await pilot.press("N")
        await shows(app, ">*line 100 needle", timeout_s=15)
        await shows(app, "line 101 hay")


async def test_copy_takes_the_line_under_the_cursor() -> None:
    agent = FakeAgent()
    agent.log_file.count = 20
    app = make(agent)
    async with app.run_test(size=SIZE) as pilot:
        await opened(app, pilot, agent)
        await shows(app, "line 19")
        await pilot.press("up", "y")
        assert app.clipboard == "line 18"


async def test_a_flood_is_passed_over_in_bounded_memory_without_a_stall() -> None:
    agent = FakeAgent()
    agent.log_file.count = 10_000
    app = make(agent)
    async with app.run_test(size=SIZE) as pilot:
        screen = await opened(app, pilot, agent)
        await shows(app, "line 9999")
        served = agent.log_file.served
        longest = 0.0
        ticks = 5
        for _ in range(ticks):
            agent.log_file.count += 25_000
            before = time.monotonic()
            await asyncio.sleep(0.5)
            longest = max(longest, time.monotonic() - before - 0.5)
            assert screen._book.count <= KEPT_LINES + PAGE_LINES
        await shows(app, f"line {agent.log_file.count - 1}")
        await shows(app, "written too fast to follow")
        assert agent.log_file.served - served <= (ticks + 3) * 2 * PAGE_LINES
        assert longest < 0.5, "the loop stood still"


async def test_a_log_that_cannot_be_read_says_why_and_comes_back() -> None:
    agent = FakeAgent()
    agent.log_file.count = 3
    app = make(agent)
    good = agent.log

    def broken(before: int | None = None, after: int | None = None, limit: int = 200) -> dict[str, object]:
        raise ConsoleError("the log cannot be read", why="permission denied")

    agent.log = broken  # type: ignore[method-assign]
    async with app.run_test(size=SIZE) as pilot:
        await opened(app, pilot, agent)
        await shows(app, "the log cannot be read - permission denied")
        agent.log = good  # type: ignore[method-assign]
        await shows(app, "line 2")
        assert "permission denied" not in screen_text(app)


async def test_a_restart_of_the_engine_shows_the_new_file() -> None:
    agent = FakeAgent()
    agent.log_file.count = 300
    app = make(agent)
    async with app.run_test(size=SIZE) as pilot:
        await opened(app, pilot, agent)
        await shows(app, "line 299")
        agent.log_file.path, agent.log_file.count = "/rig/second.log", 2
        await shows(app, "second.log")
        await shows(app, "line 1")
        assert "line 299" not in screen_text(app)
