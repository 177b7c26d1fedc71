"""From the first frame to the last: connecting, losing the agent, coming back, sizes, hostile text, ASCII."""

from __future__ import annotations

import threading

import pytest

from console import rig
from console.app import ConsoleApp
from console.errors import ExitCode
from console.screens.agent import CannotBeginError
from console.screens.deck import DeckScreen
from console.screens.possible import CHECKED
from console.screens.small import SmallScreen
from tests.app.fake import FakeAgent, FakeShelf, make, operation, screen_text, serving, shows, until, with_engine

HOSTILE = "[bold red]x[/] \x1b[2J\x1b]0;t\x07 \u202eevil\u200b [/nothing] [@click=app.exit]go[/] é\u0301\u0301\u0301 \U0001f1e9"


async def test_the_first_frame_is_there_before_anything_is_connected() -> None:
    started = threading.Event()
    release = threading.Event()
    agent = FakeAgent()

    def connect() -> FakeAgent:
        started.set()
        release.wait(5)
        return agent

    app = ConsoleApp(connect, rig="box", shelf=FakeShelf())
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(app, "CONNECTING  to the agent of rig box")
        await until(started.is_set, "the connection")
        await pilot.press("x", "r", "right_square_bracket", "C", "enter")
        assert isinstance(app.screen, DeckScreen)
        release.set()
        agent.push(serving())
        await shows(app, "READY")
        assert "CONNECTING" not in screen_text(app)


async def test_a_lost_agent_is_said_figures_go_grey_and_it_comes_back() -> None:
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=(120, 36)) as pilot:
        agent.push(serving())
        await shows(app, "READY")
        agent.refuse_connects = 2
        agent.push(ConnectionResetError("gone"))
        await shows(app, "AGENT LOST")
        await shows(app, "no agent answers - connection refused")
        await shows(app, "stale")
        assert not app.can("stop")
        await pilot.press("x")
        assert agent.asked == []
        agent.push(serving(seq=9))
        await until(lambda: "AGENT LOST" not in screen_text(app), "the return")
        assert app.can("stop")
        assert agent.connects == 4
        assert "stale" not in screen_text(app)


async def test_a_silent_agent_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.app._SILENT_S", 0.2)
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=(120, 36)):
        agent.push(serving())
        await shows(app, "READY")
        await shows(app, "AGENT SILENT")
        await shows(app, "stale")


async def test_an_ambiguous_rig_ends_the_app_with_its_line() -> None:
    error = CannotBeginError("which rig?", why="a, b run", todo="name one with --rig", code=ExitCode.USAGE)

    def connect() -> FakeAgent:
        raise error

    app = ConsoleApp(connect, rig=None)
    async with app.run_test(size=(80, 24)):
        await until(lambda: not app.is_running, "the end")
    assert app.failure is error
    assert app.return_code == ExitCode.USAGE


async def test_a_small_terminal_says_so_and_recovers() -> None:
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=(40, 10)) as pilot:
        await shows(app, "console needs 60x20, this is 40x10")
        agent.push(serving())
        await until(lambda: app.latest is not None, "a snapshot")
        await pilot.press("escape", "x")
        assert isinstance(app.screen, SmallScreen)
        assert agent.asked == []
        await pilot.resize_terminal(80, 24)
        await shows(app, "READY")
        assert isinstance(app.screen, DeckScreen)
        await pilot.resize_terminal(59, 40)
        await shows(app, "console needs 60x20, this is 59x40")
        await pilot.resize_terminal(80, 24)
        await shows(app, "READY")


@pytest.mark.parametrize("ascii_only", [False, True])
async def test_hostile_text_is_shown_literally_on_every_screen(ascii_only: bool) -> None:
    agent = FakeAgent()
    agent.previews["stop"] = rig.Preview(
        kind="stop", title=HOSTILE, warnings=(HOSTILE,), changes=(rig.Change(HOSTILE, HOSTILE, HOSTILE),)
    )
    agent.log_file.count, agent.log_file.text = 50, lambda i: f"{i} {HOSTILE}"
    hostile = with_engine(
        serving(
            events=(rig.Event(1.0, "error", HOSTILE),),
            alarms=(rig.Alarm("a", "warn", 1.0, HOSTILE, (HOSTILE,)),),
            log_tail=(HOSTILE,),
            gpu_note=HOSTILE,
            operation=operation(title=HOSTILE, message=HOSTILE, ended_at_s=2.0, state=rig.OperationState.FAILED),
        ),
        model=HOSTILE,
        drafter=HOSTILE,
        note=HOSTILE,
        version=HOSTILE,
        profile="story",
    )
    app = make(agent, ascii_only=ascii_only)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        agent.push(hostile)
        await shows(app, "[bold red]x[/]")
        for keys in (("t", "escape"), ("d", "escape"), ("l", "escape"), ("p", "escape"), ("s", "escape"), ("x", "n")):
            await pilot.press(keys[0])
            await pilot.pause(0.15)
            text = screen_text(app)
            assert "\x1b" not in text
            assert "\u202e" not in text
            if ascii_only:
                assert text.isascii(), [char for char in text if not char.isascii()]
            await pilot.press(keys[1])
        app.tell(HOSTILE, "error")
        await shows(app, "[@click=app.exit]go[/]")
        assert app.is_running


async def test_ascii_covers_textuals_own_widgets_and_can_be_toggled() -> None:
    agent = FakeAgent()
    app = make(agent, ascii_only=True)
    async with app.run_test(size=(100, 40), notifications=True) as pilot:
        agent.push(serving())
        await shows(app, "READY")
        app.tell("hello")
        await pilot.press("ctrl+p")
        await shows(app, "Drafters of this target")
        assert screen_text(app).isascii()
        await pilot.press("escape")
        app.action_toggle_ascii()
        await until(lambda: not screen_text(app).isascii(), "the other characters")


async def test_no_colour_has_no_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=(80, 24)):
        agent.push(serving())
        await shows(app, "READY")
        for strip in app.screen._compositor.render_strips():
            for segment in strip:
                style = segment.style
                for color in (style.color, style.bgcolor) if style else ():
                    assert color is None or color.is_default, (segment.text, color)


async def test_read_only_has_no_key_that_changes_anything() -> None:
    agent = FakeAgent()
    app = make(agent, read_only=True)
    async with app.run_test(size=(120, 36)) as pilot:
        agent.push(serving())
        await shows(app, "READY")
        await pilot.press("x", "r", "left_square_bracket", "right_square_bracket", "C", "s")
        await pilot.pause(0.3)
        assert agent.asked == []
        assert isinstance(app.screen, DeckScreen)
        assert {action for action in CHECKED if app.can(action)} == {
            "environment",
            "history",
            "log",
            "filter_log",
            "freeze",
            "drafters",
            "targets",
        }


async def test_worker_errors_are_told_and_the_app_goes_on() -> None:
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=(120, 36), notifications=True) as pilot:
        agent.push(serving())
        await shows(app, "READY")

        def broken(*_: object, **__: object) -> rig.Preview:
            raise RuntimeError("[b]bug[/b]")

        agent.preview = broken  # type: ignore[method-assign, assignment]
        await pilot.press("x")
        await shows(app, "RuntimeError: [b]bug[/b]")
        assert app.is_running


async def test_every_engine_state_draws_at_the_smallest_size() -> None:
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=(60, 20)):
        for number, state in enumerate(rig.EngineState, start=100):
            agent.push(with_engine(serving(seq=number), state=state))
            await until(lambda seq=number: app.latest is not None and app.latest.seq == seq, state.value)
            await shows(app, "NO ENGINE" if state is rig.EngineState.NONE else state.value.upper())
            assert "leave" in screen_text(app)
