"""Each key of the deck, pressed: what the agent is asked, and what is on the screen."""

from __future__ import annotations

import msgspec
import pytest

from console import rig
from console.errors import ConsoleError
from console.screens.confirm import ConfirmScreen
from console.screens.deck import DeckScreen
from console.screens.drafters import DraftersScreen
from console.screens.help import HelpScreen
from console.screens.launch import LaunchScreen
from console.screens.log import LogScreen
from console.screens.palette import TITLES
from console.screens.profiles import ProfilesScreen
from console.screens.save import SaveScreen
from console.screens.targets import TargetsScreen
from tests.app.fake import FakeAgent, idle, make, operation, screen_text, serving, shows, until, with_engine

SIZE = (120, 36)


async def test_depth_by_restart_is_asked_first() -> None:
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        agent.push(serving())
        await shows(app, "BigTarget")
        await pilot.press("right_square_bracket")
        await until(lambda: isinstance(app.screen, ConfirmScreen), "the question")
        assert agent.asked == [("depth", {"depth": 3})]
        await shows(app, "2 running requests will be drained")
        await shows(app, "from 3 earlier starts")
        assert agent.begun == []
        await pilot.press("n")
        await until(lambda: isinstance(app.screen, DeckScreen), "the deck")
        assert agent.begun == []
        await pilot.press("left_square_bracket")
        await until(lambda: isinstance(app.screen, ConfirmScreen), "the question")
        await pilot.press("y")
        await until(lambda: agent.begun, "the operation")
        assert agent.begun == [("depth", {"depth": 1})]


async def test_live_depth_happens_at_once_and_presses_add_up() -> None:
    agent = FakeAgent(previews={"depth": rig.Preview(kind="depth", title="depth", path="live")})
    app = make(agent)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        agent.push(with_engine(serving(), candidate_steps=(0, 1, 2, 3, 5)))
        await shows(app, "BigTarget")
        await pilot.press("right_square_bracket", "right_square_bracket")
        await until(lambda: agent.begun, "the operation")
        assert agent.begun == [("depth", {"depth": 5})]
        assert isinstance(app.screen, DeckScreen)


async def test_refusal_is_one_line() -> None:
    agent = FakeAgent(previews={"stop": rig.Preview(kind="stop", title="stop", refused="[b]not[/b] now")})
    app = make(agent)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        agent.push(serving())
        await shows(app, "BigTarget")
        await pilot.press("x")
        await shows(app, "stop: [b]not[/b] now")
        assert isinstance(app.screen, DeckScreen)
        agent.error = ConsoleError("the agent is busy", todo="wait")
        await pilot.press("r")
        await shows(app, "the agent is busy - wait")


@pytest.mark.parametrize(("key", "kind"), [("x", "stop"), ("r", "restart")])
async def test_dangerous_keys_ask_and_name_the_effect(key: str, kind: str) -> None:
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        agent.push(serving())
        await shows(app, "BigTarget")
        await pilot.press(key)
        await shows(app, "2 running requests will be drained")
        three = serving(load=rig.Load(running=rig.Figure(3.0), queued=rig.Figure(1.0)))
        agent.push(three)
        await shows(app, "3 running requests will be drained, 1 waiting one refused")
        await pilot.press("enter")
        await until(lambda: agent.begun, "the operation")
        assert agent.begun == [(kind, {})]


SCREENS = {
    "p": ProfilesScreen,
    "d": DraftersScreen,
    "t": TargetsScreen,
    "l": LogScreen,
    "slash": LogScreen,
    "s": SaveScreen,
    "question_mark": HelpScreen,
}


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (200, 50)])
async def test_screens_open_draw_and_close(size: tuple[int, int]) -> None:
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=size) as pilot:
        agent.push(serving())
        await shows(app, "READY")
        for key, screen in SCREENS.items():
            await pilot.press(key)
            await until(lambda kind=screen: isinstance(app.screen, kind), screen.__name__)
            rows = screen_text(app).splitlines()
            assert len(rows) == size[1]
            assert any("esc " in row for row in rows), f"{screen.__name__} does not say how to leave"
            for _ in range(3):
                if not isinstance(app.screen, DeckScreen):
                    await pilot.press("escape")
            await until(lambda: isinstance(app.screen, DeckScreen), "the deck")


async def test_freeze_holds_the_screen_while_data_goes_on() -> None:
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        agent.push(serving())
        await shows(app, "BigTarget")
        await pilot.press("space")
        await shows(app, "FROZEN")
        agent.push(with_engine(serving(seq=2), model="OtherTarget"))
        await until(lambda: app.latest is not None and app.latest.seq == 2, "the next snapshot")
        await pilot.pause()
        assert "BigTarget" in screen_text(app)
        assert "OtherTarget" not in screen_text(app)
        await pilot.press("space")
        await shows(app, "OtherTarget")
        assert "FROZEN" not in screen_text(app)


async def test_cancel_is_there_while_it_is_possible() -> None:
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        agent.push(serving())
        await shows(app, "BigTarget")
        assert "C cancel" not in screen_text(app)
        agent.push(serving(operation=operation()))
        await shows(app, "C cancel")
        await pilot.press("C")
        await until(lambda: agent.cancelled, "the cancel")
        agent.push(serving(operation=operation(cancellable=False)))
        await until(lambda: "C cancel" not in screen_text(app), "the key to go")


async def test_the_end_of_an_operation_is_told_once() -> None:
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        ended = operation(state=rig.OperationState.ROLLED_BACK, message="accept_len fell", ended_at_s=1.0)
        agent.push(serving(operation=msgspec.structs.replace(ended, id="old")))
        await shows(app, "BigTarget")
        assert len(app._notifications) == 0
        agent.push(serving(operation=operation()))
        await shows(app, "C cancel")
        await pilot.press("t")
        agent.push(serving(operation=ended))
        await shows(app, "restart it: rolled back - accept_len fell")
        agent.push(serving(operation=ended))
        await pilot.pause()
        assert len(app._notifications) == 1


async def test_swap_from_the_drafters() -> None:
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        agent.push(serving())
        await shows(app, "BigTarget")
        await pilot.press("d")
        await shows(app, "> first")
        await pilot.press("enter")
        await shows(app, "/d/first is the drafter that runs")
        await pilot.press("down", "enter")
        await until(lambda: isinstance(app.screen, ConfirmScreen), "the question")
        assert agent.asked == [("swap", {"drafter": "/d/second"})]
        await pilot.press("y")
        await until(lambda: agent.begun, "the operation")


async def test_launch_from_the_profiles_and_its_screen() -> None:
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        agent.push(idle())
        await shows(app, "choose a profile and start it")
        await pilot.press("p")
        await shows(app, "the [red]story's[/] box")
        await shows(app, "broken")
        await pilot.press("slash", *"small", "enter")
        await until(lambda: "torn" not in screen_text(app), "the filter")
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, ConfirmScreen), "the question")
        assert agent.asked == [("launch", {"profile": "tiny"})]
        await pilot.press("y")
        await until(lambda: isinstance(app.screen, LaunchScreen), "the launch screen")
        starting = with_engine(
            idle(),
            state=rig.EngineState.STARTING,
            profile="tiny",
            log_path="/l",
            eta_s=40.0,
            eta_from="2 earlier starts",
            phases=(rig.Phase("weights", "Loading weights", started_at_s=1.0),),
        )
        agent.push(starting)
        await shows(app, "Loading weights")
        assert "C cancel" not in screen_text(app)
        agent.push(msgspec.structs.replace(starting, operation=operation("launch")))
        await shows(app, "C cancel")
        agent.push(serving())
        await until(lambda: isinstance(app.screen, DeckScreen), "the deck")


async def test_a_failed_start_keeps_its_screen() -> None:
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        agent.push(with_engine(idle(), state=rig.EngineState.STARTING, profile="tiny"))
        await shows(app, "enter start-up")
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, LaunchScreen), "the launch screen")
        failure = rig.Failure(
            kind="oom", message="CUDA out of memory", ranks=("TP0",), advice="lower mem-fraction-static"
        )
        agent.push(
            with_engine(idle(), state=rig.EngineState.DEAD, profile="tiny", exit_code=1, failure=failure, log_path="/l")
        )
        await shows(app, "CUDA out of memory")
        await shows(app, "lower mem-fraction-static")
        await shows(app, "r try again")
        assert isinstance(app.screen, LaunchScreen)


async def test_a_broken_profile_is_explained_not_launched() -> None:
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        agent.push(idle())
        await shows(app, "choose a profile")
        await pilot.press("p")
        await shows(app, "torn.toml")
        await pilot.press("end", "enter")
        await shows(app, "engine.tp: expected int, got str")
        assert agent.asked == []


async def test_save_what_runs_now() -> None:
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        agent.push(with_engine(serving(acceptance=rig.Acceptance(depth=rig.Figure(3.0))), drafter="/d/second"))
        await shows(app, "BigTarget")
        await pilot.press("s")
        await shows(app, "Profile story as it runs now, drafter second, depth 3")
        await shows(app, "enter save  esc no")
        await pilot.press("enter")
        await shows(app, "there is a profile story")
        assert app.shelf.saved == []  # type: ignore[attr-defined]
        await pilot.press("end", *"-deep", "enter")
        await until(lambda: app.shelf.saved, "the saved profile")  # type: ignore[attr-defined]
        profile, replace = app.shelf.saved[0]  # type: ignore[attr-defined]
        assert profile.name == "story-deep"
        assert (profile.speculation.drafter, profile.speculation.steps, profile.speculation.draft_tokens) == (
            "/d/second",
            3,
            4,
        )
        assert replace is False
        await shows(app, "saved as story-deep")


async def test_save_refuses_what_is_no_name() -> None:
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        agent.push(serving())
        await shows(app, "BigTarget")
        await pilot.press("s", *"../x", "enter")
        await shows(app, "cannot be saved")
        assert app.shelf.saved == []  # type: ignore[attr-defined]


async def test_q_leaves_and_stops_nothing() -> None:
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        agent.push(serving())
        await shows(app, "q leave (engine stays up)")
        await pilot.press("q")
        await until(lambda: not app.is_running, "the end")
    assert agent.asked == []
    assert agent.begun == []
    assert app.return_code == 0


async def test_palette_holds_every_action_of_the_deck() -> None:
    bound = {binding.action for binding in DeckScreen.BINDINGS if binding.id}  # type: ignore[union-attr]
    assert bound == set(TITLES)
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=(120, 50)) as pilot:
        agent.push(serving())
        await shows(app, "BigTarget")
        found = {command.title for command in app.get_system_commands(app.screen)}
        assert found >= set(TITLES.values()) - {
            TITLES[key] for key in ("cancel", "launch_view", "calibrate", "acknowledge")
        } | {
            "ASCII only",
            "Theme",
            "Help",
        }
        assert TITLES["cancel"] not in found
        await pilot.press("ctrl+p", *"freeze")
        await shows(app, "Hold the figures still")
        await pilot.press("enter")
        await shows(app, "FROZEN")


async def test_palette_launch_asks() -> None:
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        agent.push(idle())
        await shows(app, "choose a profile")
        await pilot.press("ctrl+p", *"launch tiny")
        await shows(app, "a small pair")
        await pilot.press("enter")
        await until(lambda: agent.asked, "the preview")
        assert agent.asked == [("launch", {"profile": "tiny"})]
