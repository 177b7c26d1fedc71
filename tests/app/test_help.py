"""Keys, help and guide say the same, and nothing is bound that does nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual.binding import Binding

from console.app import ConsoleApp
from console.screens.base import Dialog, SubScreen
from console.screens.calibration import CalibrationScreen
from console.screens.confirm import ConfirmScreen
from console.screens.deck import DeckScreen
from console.screens.drafters import DraftersScreen
from console.screens.environment import EnvironmentScreen
from console.screens.help import HelpScreen, key_name
from console.screens.history import HistoryScreen
from console.screens.launch import LaunchScreen
from console.screens.log import LogScreen
from console.screens.measure import MeasureScreen
from console.screens.profiles import ProfilesScreen
from console.screens.replay import ReplayApp
from console.screens.save import SaveScreen
from console.screens.small import SmallScreen
from console.screens.targets import TargetsScreen
from tests.app.fake import FakeAgent, make, screen_text, serving, shows, until

GUIDE = (Path(__file__).parents[2] / "docs" / "guide.md").read_text()
DOCUMENTED = [DeckScreen, LogScreen, ProfilesScreen, DraftersScreen, TargetsScreen, LaunchScreen, ConfirmScreen]
DOCUMENTED += [MeasureScreen, CalibrationScreen, EnvironmentScreen, HistoryScreen, ReplayApp]
ALL = [*DOCUMENTED, SubScreen, HelpScreen, SaveScreen, SmallScreen, ConsoleApp]


def bindings(kind: type) -> list[Binding]:
    found = kind.__dict__.get("BINDINGS", [])
    assert all(isinstance(binding, Binding) for binding in found)
    return found


def table(heading: str) -> list[tuple[str, str]]:
    """The rows of the guide's key table under a heading."""
    section = GUIDE.split(f"### {heading}\n", 1)[1].split("\n#", 1)[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", section, flags=re.MULTILINE)
    return [row for row in rows if row[0] != "key"]


@pytest.mark.parametrize("kind", DOCUMENTED, ids=lambda kind: kind.__name__)
def test_the_guide_has_every_key_of_a_screen(kind: type) -> None:
    expected = [(key_name(binding.key), binding.tooltip) for binding in bindings(kind)]
    assert table(kind.HEADING) == expected  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_binding_has_an_id_a_tooltip_and_an_action(kind: type) -> None:
    for binding in bindings(kind):
        assert binding.id
        assert binding.tooltip
        target = ConsoleApp if binding.action.startswith("app.") else kind
        assert hasattr(target, f"action_{binding.action.partition('(')[0].rpartition('.')[2]}"), binding


def test_ids_are_unique_within_what_can_be_active_together() -> None:
    for kind in DOCUMENTED:
        ids = [binding.id for binding in (*bindings(kind), *bindings(SubScreen), *bindings(ConsoleApp))]
        assert len(ids) == len(set(ids)), kind
    assert not any(issubclass(kind, SubScreen) and issubclass(kind, Dialog) for kind in ALL)


def test_ctrl_c_is_copy() -> None:
    keys = {key for binding in (*bindings(DeckScreen), *bindings(ConsoleApp)) for key in binding.key.split(",")}
    assert "ctrl+c" not in keys


async def test_help_lists_every_key_and_says_which_do_nothing_now() -> None:
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=(120, 60)) as pilot:
        agent.push(serving())
        await shows(app, "READY")
        await pilot.press("question_mark")
        await until(lambda: isinstance(app.screen, HelpScreen), "the help")
        text = screen_text(app)
        for binding in (*bindings(DeckScreen), *bindings(ConsoleApp)):
            assert binding.tooltip[:60] in text
        assert "Cancel the running operation, while that is possible · not now" in text
        assert "Stop the engine (asked first) ·" not in text
        assert "ctrl+p" in text


async def test_help_of_another_screen_is_about_that_screen() -> None:
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=(100, 50)) as pilot:
        agent.push(serving())
        await shows(app, "READY")
        await pilot.press("l", "question_mark")
        await until(lambda: isinstance(app.screen, HelpScreen), "the help")
        text = screen_text(app)
        assert "Follow the newest lines" in text
        assert "Stop the engine" not in text
        assert "Leave the console" not in text, "q goes back here"
        await pilot.press("q", "q")
        await until(lambda: isinstance(app.screen, DeckScreen), "the deck")


async def test_a_click_on_the_footer_is_a_key() -> None:
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=(120, 36)) as pilot:
        agent.push(serving())
        await shows(app, "READY")
        await shows(app, "d drafters")
        column = screen_text(app).splitlines()[-1].index("d drafters")
        await pilot.click(offset=(column + 2, 35))
        await until(lambda: isinstance(app.screen, DraftersScreen), "the drafters")
        await pilot.press("escape")
        await shows(app, "[ ] depth")
        column = screen_text(app).splitlines()[-1].index("[ ] depth")
        await pilot.click(offset=(column + 2, 35))
        await until(lambda: agent.asked, "the preview")
        assert agent.asked == [("depth", {"depth": 3})]
