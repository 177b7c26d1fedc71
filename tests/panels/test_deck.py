"""The deck as an operator sees it: every situation at the three sizes, as text that can be read in a review."""

from __future__ import annotations

from itertools import combinations

import msgspec
import pytest
from rich.cells import cell_len
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from textual.geometry import Region

from panels import glyphs
from panels.deck import Deck, Situation, arrange
from panels.gpus import Gpus
from tests.panels import builders
from tests.panels.deck_app import DeckApp, screen_text

SIZES = ((80, 24), (120, 36), (200, 50))
ODD_SIZES = ((60, 20), (80, 20), (40, 10), (99, 33), (160, 30), (240, 24), (80, 60), (10, 3), (1, 1))


class TextFile(SingleFileSnapshotExtension):
    """One readable file a screen."""

    _write_mode = WriteMode.TEXT
    _file_extension = "txt"


async def drawn(snapshot, size) -> str:
    app = DeckApp(snapshot)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        return screen_text(app)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("situation", builders.SITUATIONS)
async def test_screen(situation, size, snapshot):
    shown = await drawn(builders.SITUATIONS[situation](), size)
    assert {cell_len(row) for row in shown.splitlines()} == {size[0]}
    assert shown == snapshot(extension_class=TextFile)


@pytest.mark.parametrize("size", SIZES[:2], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("situation", ["loses", "pays", "starting", "dead", "lost_gpu", "hostile", "operating"])
async def test_ascii_screen(situation, size, snapshot, ascii_terminal):
    shown = await drawn(builders.SITUATIONS[situation](), size)
    assert shown.isascii()
    assert shown == snapshot(extension_class=TextFile)


@pytest.mark.parametrize("size", ODD_SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("situation", ["loses", "hostile"])
async def test_no_size_breaks_it(situation, size):
    shown = await drawn(builders.SITUATIONS[situation](), size)
    assert {cell_len(row) for row in shown.splitlines()} <= {size[0]}


# ------------------------------------------------------------------------- what must be in sight at 80x24


@pytest.mark.parametrize("height", [23, 24])
async def test_all_essential_facts_are_in_sight_at_80_columns(height):
    shown = await drawn(builders.loses(), (80, height))
    for fact in (
        "READY", "Kimi-K2.5", "Kimi-K2-Instruct-eagle3", "depth 2", "1 run", "up 3h12m",
        "30.0 ms", "verify 25.8/26.9", "draft  0.61/0.66", "accept_len 2.00", "break-even 2.46", "0.46 short",
        "1:62% ±3", "rejected 50%", "LOSES", "0.81×", "66.7 of 82.0 tok/s", "80.8%", "unreachable", "ceiling 100",
        "baseline 82.0 tok/s", "3h old", "412/700", "126/140", "58°", "1980", "1.3G/1.3G",
    ):  # fmt: skip
        assert fact in shown, fact
    assert all(f"  {index}   r{index} " in shown for index in range(8))


async def test_simulated_stands_on_the_screen_at_every_size():
    for size in (*SIZES, (60, 20), (40, 10)):
        assert "SIMULATED" in await drawn(builders.simulated(), size)


async def test_a_missing_stage_is_a_dash_with_its_reason():
    shown = await drawn(builders.metrics_only(), (120, 36))
    assert "no device timer" in shown
    assert "needs the probe, or a calibration" in shown
    assert "0.00" not in shown.replace("2.00", "")


async def test_a_stale_figure_shows_its_age_and_its_reason():
    shown = await drawn(builders.stale(), (120, 36))
    assert "30.0 ms (4m old)" in shown
    assert "no decode for 4 min" in shown
    assert "other rig" in shown


async def test_a_dead_engine_says_why_and_what_to_do():
    shown = await drawn(builders.dead(), (80, 24))
    assert "DEAD" in shown
    assert "exit code 1" in shown
    assert "CUDA out of memory" in shown
    assert "8 of 8 ranks" in shown
    assert "lower --mem-fraction-static" in shown


async def test_without_nvml_the_pane_says_so_and_all_else_works():
    shown = await drawn(builders.no_nvml(), (80, 24))
    assert "Driver/library version mismatch" in shown
    assert "accept_len 2.00" in shown


async def test_each_fault_of_a_gpu_is_in_its_own_row():
    shown = await drawn(builders.lost_gpu(), (120, 36))
    rows = {int(row[2:5]): row for row in shown.splitlines() if row[2:5].strip().isdigit()}
    assert "power cap, thermal" in rows[1]
    assert "MIG" in rows[2]
    assert "LOST 09:58:41" in rows[3]
    assert "stray 9120 12G python" in rows[4]
    assert "power: not supported" in rows[5]
    assert "no reading for 14s" in rows[6]
    assert "ok" in rows[7]
    assert "1 lost or failing" in shown


async def test_an_operation_shows_its_steps_and_who_asked():
    shown = await drawn(builders.operating(), (120, 36))
    assert "step 3/6 copy on every rank" in shown
    assert "by anna" in shown
    assert "prove by checksum" in shown


async def test_foreign_text_reaches_the_screen_literally():
    shown = await drawn(builders.hostile(), (200, 50))
    assert "[bold red]not markup[/] [link=x]" in shown
    assert "\\x1b[31mred\\x1b]0;title\\x07" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown


# ------------------------------------------------------------------------------------------- arrangement


@pytest.mark.parametrize("serving", [True, False])
@pytest.mark.parametrize("operation", [True, False])
@pytest.mark.parametrize("gpus", [0, 1, 8, 64])
def test_panels_cover_the_screen_and_never_each_other(gpus, operation, serving):
    now = Situation(gpus=gpus, serving=serving, operation=operation, goals=3)
    for width in (60, 80, 100, 120, 160, 200):
        for height in range(20, 61):
            places = arrange(width, height, now)
            screen = Region(0, 0, width, height)
            assert all(region in screen for region in places.values())
            assert not any(one.overlaps(other) for one, other in combinations(places.values(), 2))
            assert sum(region.area for region in places.values()) >= screen.area - height
            assert {"header", "gpus", "targets"} <= set(places)
            assert ("launch" in places) is not serving
            assert ("cycle" in places) is serving


def test_eight_gpus_are_in_sight_from_80x23_on():
    for width, height in ((80, 23), (80, 24), (120, 35), (120, 36), (200, 49), (200, 50)):
        frame = 2 if height >= 33 else 0
        assert arrange(width, height, Situation(gpus=8))["gpus"].height == 9 + frame


# ---------------------------------------------------------------------------------------- what is painted


async def test_an_equal_snapshot_paints_nothing(monkeypatch):
    app = DeckApp(builders.loses())
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        painted = watch(app, monkeypatch)
        app.query_one(Deck).show(builders.loses())
        await pilot.pause()
        assert painted == []


async def test_one_figure_paints_its_own_cells_only(monkeypatch):
    first = builders.loses()
    app = DeckApp(first)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        painted = watch(app, monkeypatch)
        gpus = (*first.gpus[:3], msgspec.structs.replace(first.gpus[3], temp_c=71), *first.gpus[4:])
        app.query_one(Deck).show(msgspec.structs.replace(first, gpus=gpus))
        await pilot.pause()
        assert [(name, region.height, region.width < 60) for name, region in painted] == [("gpus", 1, True)]
        assert "71°" in screen_text(app)


async def test_hidden_panels_do_not_work(monkeypatch):
    app = DeckApp(builders.loses())
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        deck = app.query_one(Deck)
        assert not deck.query_one("#log").display
        assert not deck.query_one("#launch").display
        deck.show(builders.dead())
        await pilot.pause()
        assert deck.query_one("#launch").display
        assert not deck.query_one("#cycle").display
        assert "CUDA out of memory" in screen_text(app)


async def test_a_theme_changes_colours_at_once():
    app = DeckApp(builders.loses())
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        before = app.query_one(Gpus).render_line(1)
        app.theme = "console-light"
        await pilot.pause()
        after = app.query_one(Gpus).render_line(1)
        assert before.text == after.text
        assert {s.style for s in before}.isdisjoint({s.style for s in after})


async def test_sixty_four_gpus_scroll_by_key_and_wheel_and_keep_their_heading():
    app = DeckApp(builders.many_gpus())
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        panel = app.query_one(Gpus)
        panel.focus()
        await pilot.pause()
        assert "1-" in screen_text(app)
        await pilot.press("end")
        await pilot.pause()
        shown = screen_text(app)
        assert " 63 " in shown
        assert "GPU rank" in shown
        await pilot.press("up", "pageup", "home")
        await pilot.pause()
        assert "   0   r0" in screen_text(app)
        assert panel.scroll_rows(3)
        assert panel.first == 3
        app.query_one(Deck).show(builders.loses())
        await pilot.pause()
        assert panel.first == 0


async def test_resizing_rearranges():
    app = DeckApp(builders.loses())
    async with app.run_test(size=(200, 50)) as pilot:
        await pilot.pause()
        assert "Log" in screen_text(app)
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        small = screen_text(app)
        assert small == await drawn(builders.loses(), (80, 24))


# ----------------------------------------------------------------------------------------------- colours


@pytest.mark.parametrize("theme", ["console-dark", "console-light", "console-colour-blind", "console-plain"])
def test_theme(snap_compare, theme):
    assert snap_compare(DeckApp(builders.lost_gpu(), theme), terminal_size=(120, 36))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_simulated_deck(snap_compare, size):
    assert snap_compare(DeckApp(builders.simulated()), terminal_size=size)


async def test_no_color_leaves_no_colour(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    app = DeckApp(builders.lost_gpu(), "console-plain")
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        strips = app.screen._compositor.render_strips()
        styles = [style for strip in strips for _, style, _ in strip if style]
        colours = [
            color.get_truecolor()
            for style in styles
            for color in (style.color, style.bgcolor)
            if color and not color.is_default
        ]
        assert all(red == green == blue for red, green, blue in colours)
        assert "LOST" in screen_text(app)


def watch(app, monkeypatch) -> list:
    """Every region any panel asks to have painted."""
    painted: list = []
    for panel in app.query_one(Deck).children:
        original = panel.refresh

        def refresh(*regions, _panel=panel, _original=original, **options):
            painted.extend((_panel.id, region) for region in regions or (_panel.region,))
            return _original(*regions, **options)

        monkeypatch.setattr(panel, "refresh", refresh)
    return painted


def test_ascii_glyphs_are_ascii():
    for name in glyphs.Glyphs.__slots__:
        value = getattr(glyphs.ASCII, name)
        assert isinstance(value, bool) or "".join(value).isascii(), name
