"""The Drafters screen, key by key, against an agent that answers what a test tells it to."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from textual.widgets import Input

from console import rig
from console.agent.pulls import Pull
from console.agent.records import Record, Summary
from console.agent.shelf import Item
from console.app import ConsoleApp
from console.errors import ConsoleError
from console.screens import drafter_rows
from console.screens.confirm import ConfirmScreen
from console.screens.drafter_detail import DrafterDetail
from console.screens.drafters import DraftersScreen
from tests.app.fake import AT_S, FakeAgent, make, operation, screen_text, serving, shows, until, with_engine

GOOD = Record(at_s=AT_S, accept_len=3.4, tok_s=101.5, depth=3.0, outcome="kept", fingerprint="0123456789ab")
ITEMS = (
    Item(name="/d/first", path="/d/first", verdict="same", why="this drafter is running", running=True, listed=True, bytes=2_382_317_568,
         revision="c0ffee" + "0" * 34, licence="mit", record=Summary(GOOD, GOOD, 3)),
    Item(name="/d/second", path="/d/second", verdict="restart", why="it fits the target", bytes=11_310_000, licence="apache-2.0"),
    Item(name="/d/[red]evil\x1b[2J", path="/d/[red]evil\x1b[2J", verdict="incompatible", why="target hidden size 128, the target has 64 (C3)"),
    Item(name="org/listed", why="not on this disk: pull it", listed=True),
)  # fmt: skip
ANSWER: dict[str, Any] = {
    "verdict": "incompatible",
    "todo": "do not download or serve it with this target",
    "checks": [
        {"id": "C3", "ok": False, "severity": "block", "message": "target hidden size 128, the target has 64", "drafter": 128, "reference": 64},
        {"id": "C16", "ok": False, "severity": "warn", "message": "context window 2048", "drafter": 2048, "reference": 4096},
        {"id": "C19", "ok": None, "severity": "warn", "message": "does not say", "drafter": None, "reference": None},
        {"id": "C1", "ok": True, "severity": "block", "message": "class [bold]X\x1b[31m", "drafter": "X", "reference": "X"},
    ],
    "drafter": {"files": [{"name": "config.json", "bytes": 700}, {"name": "sub/model.safetensors", "bytes": 2_382_317_568}]},
    "comparison": {"relation": "unrelated", "why": "median distance 1.41", "vocabulary_overlap": 0.5, "head_note": "re-map",
                   "rows": [{"name": "fc.weight", "ours": "BF16 [64, 192]", "theirs": "BF16 [64, 192]", "distance": 1.41}]},
    "notes": ["training_state.pt skipped"],
}  # fmt: skip


def given(**how: object) -> FakeAgent:
    agent = FakeAgent(shelved=ITEMS, **how)  # type: ignore[arg-type]
    agent.answers["/d/[red]evil\x1b[2J"] = ANSWER
    return agent


async def opened(pilot: Any, app: ConsoleApp, agent: FakeAgent, snapshot: rig.Snapshot | None = None) -> None:
    agent.push(snapshot or serving())
    await shows(app, "BigTarget")
    await pilot.press("d")
    await shows(app, "drafts now")


async def test_list_reason_and_detail_side_by_side() -> None:
    agent = given()
    app = make(agent)
    async with app.run_test(size=(140, 44)) as pilot:
        await opened(pilot, app, agent)
        for text in ("3.40 102 t/s", "2.38 GB", "c0ffee0000", "mit", "not here", "this drafter is running"):
            await shows(app, text)
        await shows(app, "accept_len 3.40, 101.5 tok/s a stream at depth 3, kept, fingerprint 0123456789ab")
        await pilot.press("down", "down")
        await shows(app, "[red]evil\\x1b[2J")
        await shows(app, "target hidden size 128")
        await until(lambda: agent.checked and agent.checked[-1].endswith("evil\x1b[2J"), "the question")
        for text in (
            "C3  NO",
            "128",
            "64",
            "C16 warn",
            "C19 ?",
            "class [bold]X\\x1b[31m",
            "sub/",
            "model.safetensors",
            "50%",
        ):
            await shows(app, text)
        assert "\x1b" not in screen_text(app)


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50), (60, 20)])
async def test_every_size_shows_verdicts_and_keys(size: tuple[int, int]) -> None:
    agent = given(
        pulling=[Pull(id="p", repository="org/x", bytes_total=100, bytes_done=40, rate_bytes_s=10.0, eta_s=6.0)]
    )
    app = make(agent, ascii_only=True)
    async with app.run_test(size=size) as pilot:
        await opened(pilot, app, agent)
        for text in ("restart", "incompatible", "40% of 100 B at 10 B/s", "esc back"):
            await shows(app, text)
        assert screen_text(app).isascii()


async def test_enter_swaps_after_asking_and_says_live_or_restart() -> None:
    agent = given()
    agent.previews["swap"] = rig.Preview(
        "swap", "swap drafter to /d/second", "live", changes=(rig.Change("drafter", "a", "b"),)
    )
    app = make(agent)
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        await opened(pilot, app, agent)
        await pilot.press("enter")
        await shows(app, "/d/first is the drafter that runs")
        await pilot.press("down", "enter")
        await until(lambda: isinstance(app.screen, ConfirmScreen), "the question")
        await shows(app, "live")
        assert agent.asked == [("swap", {"drafter": "/d/second"})]
        await pilot.press("n")
        assert agent.begun == []
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, ConfirmScreen), "the question")
        await pilot.press("y")
        await until(lambda: agent.begun == [("swap", {"drafter": "/d/second"})], "the swap")


async def test_verify_asks_again() -> None:
    agent = given()
    app = make(agent)
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(pilot, app, agent)
        await until(lambda: agent.checked == ["/d/first"], "the first question")
        agent.shelved = (msgspec.structs.replace(ITEMS[1], verdict="unreadable", why="cut short"), ITEMS[0])
        await pilot.press("v")
        await shows(app, "unreadable")
        await until(lambda: len(agent.checked) == 2, "the second question")


async def test_filter_and_its_way_back() -> None:
    agent = given()
    app = make(agent)
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(pilot, app, agent)
        await pilot.press("slash", *"apache")
        await pilot.press("escape")
        await shows(app, "org/listed")
        await pilot.press("slash", *"listed")
        await until(lambda: "second" not in screen_text(app), "the filter")
        await pilot.press("enter", "escape")
        await shows(app, "second")
        assert isinstance(app.screen, DraftersScreen)
        await pilot.press("escape")
        assert app.on_deck


async def test_download_progress_stop_and_pin() -> None:
    agent = given()
    app = make(agent)
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        await opened(pilot, app, agent)
        assert "stop download" not in screen_text(app)
        await pilot.press("end", "D")
        await until(lambda: app.screen.query_one("#repository", Input).value == "org/listed", "the name")
        await pilot.press("enter")
        await shows(app, "org/listed: asking the hub")
        await shows(app, "stop download")
        agent.pulling = [
            msgspec.structs.replace(agent.pulling[0], bytes_total=1000, bytes_done=250, rate_bytes_s=50.0, eta_s=15.0)
        ]
        await shows(app, "25% of 1.00 kB at 50 B/s, 15 s left")
        agent.pulling = [
            msgspec.structs.replace(agent.pulling[0], state="done", revision="ab" * 20, message="complete and proven")
        ]
        await until(lambda: isinstance(app.screen, ConfirmScreen), "the question whether to pin")
        await shows(app, "pin org/listed at abababababab in profile story")
        await pilot.press("y")
        await until(lambda: app.shelf.pinned == [("story", "org/listed", "ab" * 20)], "the pin")  # type: ignore[attr-defined]
        await shows(app, "org/listed done: complete and proven")
        await pilot.press("D")
        app.screen.query_one("#repository", Input).value = "org/other"
        await pilot.press("enter")
        await shows(app, "org/other: asking the hub")
        await pilot.press("X")
        await shows(app, "org/other cancelled")
        assert len(app.shelf.pinned) == 1  # type: ignore[attr-defined]


async def test_enter_on_what_is_not_here_offers_the_download() -> None:
    agent = given()
    app = make(agent)
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(pilot, app, agent)
        await pilot.press("end", "enter")
        await until(lambda: app.screen.query_one("#repository", Input).display, "the line")
        assert agent.asked == []
        await pilot.press("escape")
        assert isinstance(app.screen, DraftersScreen)
        assert agent.pulling == []


async def test_cancel_takes_back_a_watched_swap() -> None:
    agent = given()
    app = make(agent)
    async with app.run_test(size=(100, 30)) as pilot:
        step = rig.Step("watch accept_len", rig.StepState.RUNNING, "accept_len 1.90, has to hold 1.60, 12 s left")
        await opened(pilot, app, agent, serving(operation=operation("swap", steps=(step,))))
        await shows(app, "accept_len 1.90, has to hold 1.60, 12 s left; C takes it back")
        await pilot.press("C")
        await until(lambda: agent.cancelled == 1, "the cancel")


async def test_another_drafter_that_runs_is_asked_for() -> None:
    agent = given()
    app = make(agent)
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(pilot, app, agent)
        agent.shelved = (
            msgspec.structs.replace(ITEMS[1], running=True),
            msgspec.structs.replace(ITEMS[0], running=False, why="now old"),
        )
        agent.push(with_engine(serving(), drafter="/d/second"))
        await shows(app, "same: now old")


async def test_tab_goes_to_the_detail_and_back() -> None:
    agent = given()
    app = make(agent)
    async with app.run_test(size=(100, 24)) as pilot:
        await opened(pilot, app, agent)
        await pilot.press("down", "down")
        await shows(app, "C3  NO")
        await pilot.press("tab", "end")
        assert app.screen.query_one(DrafterDetail).has_focus
        await shows(app, "training_state.pt skipped")
        await pilot.press("tab")
        assert not app.screen.query_one(DrafterDetail).has_focus


async def test_an_agent_that_says_no_and_a_reader() -> None:
    agent = given()
    agent.error = ConsoleError("the hub is [red]gone[/]")
    app = make(agent, read_only=True)
    async with app.run_test(size=(100, 30)) as pilot:
        agent.push(serving())
        await shows(app, "BigTarget")
        await pilot.press("d")
        await shows(app, "the hub is [red]gone[/]")
        assert "D download" not in screen_text(app)


@pytest.mark.parametrize(
    ("pull", "words"),
    [
        (Pull(id="1", repository="o/n"), "o/n: asking the hub"),
        (Pull(id="1", repository="o/n", bytes_total=0, state="done", message="m"), "o/n done: m"),
        (Pull(id="1", repository="o/n", bytes_total=10, bytes_done=10), "[####################] 100% of 10 B"),
    ],
)
def test_download_lines(pull: Pull, words: str) -> None:
    assert words in drafter_rows.pull_line(pull)[0]


@pytest.mark.parametrize(
    "answer", [{}, {"checks": [{}], "drafter": {"files": [{}]}, "comparison": {"rows": [{}]}, "notes": [None]}]
)
def test_an_answer_with_holes_is_drawn(answer: dict[str, Any]) -> None:
    assert isinstance(drafter_rows.detail(answer, 80), list)
