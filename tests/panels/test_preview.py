"""What an operator reads before agreeing to an operation."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.containers import VerticalScroll

from console.rig import Change, Preview
from panels.preview import PreviewPanel, preview_rows
from panels.rows import width
from tests.panels.builders import HOSTILE
from tests.panels.deck_app import screen_text

RESTART = Preview(
    kind="depth",
    title="change depth from 2 to 3",
    path="restart",
    path_why="this engine was started without adaptive tiers",
    changes=(
        Change("depth", "2", "3"),
        Change("draft tokens", "3", "4"),
        Change("arguments", "", "--speculative-num-steps 3 " * 5),
    ),
    expected_s=580.0,
    expected_from="3 earlier starts",
    warnings=("2 requests are running; they are drained first",),
)


def text_of(preview: Preview, cells: int) -> str:
    return "\n".join("".join(text for text, _ in row) for row in preview_rows(preview, cells))


def test_it_says_what_changes_how_and_how_long():
    shown = text_of(RESTART, 70)
    assert "restart: running requests are drained" in shown
    assert "without adaptive tiers" in shown
    assert "depth         2 → 3" in shown
    assert "takes about 9m40s, from 3 earlier starts" in shown
    assert "▲ 2 requests are running" in shown
    assert "not set" in shown


def test_a_refused_operation_says_why_and_offers_nothing():
    shown = text_of(Preview(kind="swap", title="swap drafter", refused="hidden_size is 4096, the target's is 7168"), 60)
    assert "✗ not possible: hidden_size is 4096" in shown
    assert "takes about" not in shown


def test_an_unknown_duration_is_said_not_guessed():
    shown = text_of(
        Preview(kind="launch", title="start", path="restart", expected_from="first start of this profile"), 60
    )
    assert "time unknown: first start of this profile" in shown


def test_rows_keep_to_the_width():
    foreign = Preview(
        kind="swap",
        title=HOSTILE[7],
        path="live",
        changes=tuple(Change(text, text, text) for text in HOSTILE),
        warnings=HOSTILE,
        expected_s=1.0,
        expected_from=HOSTILE[6],
    )
    for cells in (10, 24, 40, 72, 118):
        assert all(width(row) <= cells for row in preview_rows(foreign, cells)), cells


async def test_in_a_dialog_it_is_as_high_as_it_needs_to_be():
    class Dialog(App[None]):
        def compose(self) -> ComposeResult:
            with VerticalScroll():
                yield PreviewPanel(RESTART)

    app = Dialog()
    async with app.run_test(size=(72, 24)) as pilot:
        await pilot.pause()
        assert app.query_one(PreviewPanel).size.height == len(preview_rows(RESTART, 72))
        assert "takes about 9m40s" in screen_text(app)
