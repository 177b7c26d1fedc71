"""The deck on a recording: keys that move through time, none that changes anything."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from console import rig
from console.agent.record import Journal
from console.agent.replay import Player, ReplayClient
from console.screens.deck import DeckScreen
from console.screens.help import HelpScreen
from console.screens.replay import ReplayApp
from tests.app.fake import AT_S, screen_text, serving, shows, until

SIZE = (140, 40)


@pytest.fixture
def player(tmp_path: Path) -> Player:
    """Five minutes; the drafter's name says which second it is."""
    journal = Journal(tmp_path / "history.sqlite", clock=lambda: AT_S + 300)
    for number in range(300):
        base = serving(seq=number, at_s=AT_S + number)
        engine = msgspec.structs.replace(base.engine, drafter=f"/d/second-{number}-end")
        journal.sample(msgspec.structs.replace(base, engine=engine))
        if number % 5 == 4:
            assert journal._flush()
    journal._close()
    return Player(speed=1.0)


@pytest.fixture
def app(player: Player, tmp_path: Path) -> ReplayApp:
    client = ReplayClient(tmp_path / "history.sqlite", player)
    return ReplayApp(lambda: client, player=player, rig="test")


async def test_keys_move_through_time(app: ReplayApp, player: Player) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await shows(app, "REPLAY")
        await pilot.press("space")
        assert player.where.paused
        await shows(app, "paused")
        begun = player.where.at_s
        for key, seconds in (("right", 10), ("shift+right", 60), ("left", -10), ("shift+left", -60), ("right", 10)):
            before = player.where.at_s
            await pilot.press(key)
            assert player.where.at_s - before == pytest.approx(seconds, abs=1e-6) or player.where.at_s == AT_S
        shown = int(player.where.at_s - AT_S)
        await shows(app, f"second-{shown}-end")
        await pilot.press("full_stop")
        await shows(app, f"second-{shown + 1}-end")
        await pilot.press("comma", "comma")
        await until(lambda: player.where.at_s < AT_S + shown + 1, "the step back")
        await pilot.press("greater_than_sign", "greater_than_sign", "less_than_sign")
        assert player.where.speed == 2.0
        await pilot.press("space")
        assert not player.where.paused
        await shows(app, " 2x ")
        assert player.where.at_s > begun


async def test_a_paused_recording_does_not_grow_old(app: ReplayApp, player: Player) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await shows(app, "REPLAY")
        await pilot.press("space")
        await pilot.pause(4.0)
        assert "AGENT SILENT" not in screen_text(app)
        assert "(old)" not in screen_text(app)
        await shows(app, "paused")


async def test_nothing_changes_anything(app: ReplayApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await shows(app, "REPLAY")
        await pilot.press("x", "r", "right_square_bracket", "C", "l", "slash", "s")
        await pilot.pause(0.2)
        assert isinstance(app.screen, DeckScreen)
        for action in (
            "stop",
            "restart",
            "depth_up",
            "swap",
            "launch",
            "cancel",
            "save",
            "log",
            "freeze",
            "calibrate",
            "environment",
        ):
            assert not app.can(action), action
        assert "replay" in app.why_not()
        await pilot.press("question_mark")
        await until(lambda: isinstance(app.screen, HelpScreen), "the help")
        await shows(app, "Hold the recording still")


async def test_keys_of_a_replay_are_nowhere_else(tmp_path: Path) -> None:
    from tests.app.fake import FakeAgent, make

    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=SIZE) as pilot:
        agent.push(serving())
        await shows(app, "BigTarget")
        assert not [key for key in app.screen.active_bindings if key in ("left", "shift+left", "comma")]
        await pilot.press("left", "comma")
        assert isinstance(app.screen, DeckScreen)


def test_the_vocabulary_has_no_replay_in_it() -> None:
    """A panel cannot tell a recording from a running rig: ages are against the snapshot's own time."""
    assert not [name for name in rig.Snapshot.__struct_fields__ if "replay" in name]
