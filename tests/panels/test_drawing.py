"""Rows, bars, columns and graphs have exactly the width they are asked for, whatever they are given."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from console.rig import History, Snapshot
from panels import bars, glyphs, graph
from panels.columns import Column, choose, headings, line
from panels.digits import big
from panels.history import history
from panels.rows import beside, crop, crop_middle, differing, fit, join_fitting, merged, spread, width, wrap
from panels.text import clean
from tests.panels.builders import HOSTILE

CELLS = st.integers(1, 130)
VALUES = st.lists(st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True)), max_size=300)
TEXTS = st.one_of(st.text(max_size=80), st.sampled_from(HOSTILE)).map(clean)
ROWS = st.lists(st.tuples(TEXTS, st.sampled_from(["text", "dim"])), max_size=6).map(tuple)


@given(ROWS, CELLS)
def test_a_fitted_row_has_exactly_its_width(row, cells):
    assert width(fit(row, cells)) == cells


@given(ROWS, ROWS, CELLS)
def test_two_ends_have_exactly_their_width(left, right, cells):
    assert width(spread(left, right, cells)) == cells


@given(TEXTS, CELLS)
def test_cropped_text_fits(text, cells):
    assert cell_len(crop(text, cells)) <= cells
    assert cell_len(crop_middle(text, cells)) <= cells


def test_cropping_keeps_what_tells_names_apart():
    assert crop("Kimi-K2-Instruct-eagle3", 12) == "Kimi-K2-Ins…"
    assert crop_middle("Kimi-K2-Instruct-eagle3", 12) == "Kimi-K…agle3"
    assert crop_middle("short", 12) == "short"


def test_half_of_a_wide_character_is_never_shown():
    assert crop("汉字汉字", 4) == "汉…"
    assert width(fit((("汉字汉字", "text"),), 4)) == 4


@given(TEXTS, CELLS, st.integers(1, 5))
def test_wrapped_text_fits_and_keeps_to_its_rows(text, cells, lines):
    rows = wrap(text, cells, "text", lines)
    assert len(rows) <= lines
    assert all(width(row) <= cells for row in rows)


def test_wrapping_breaks_at_spaces():
    assert [row[0][0] for row in wrap("the drafter was trained for another target", 20, "text", 3)] == [
        "the drafter was",
        "trained for another",
        "target",
    ]


@given(ROWS, ROWS, CELLS)
def test_painting_the_difference_makes_the_new_row(before, after, cells):
    before, after = merged(fit(before, cells)), merged(fit(after, cells))
    if before == after:
        return
    left, right = differing(before, after)
    assert 0 <= left < right <= cells
    painted = as_cells(before)
    painted[left:right] = as_cells(after)[left:right]
    assert painted == as_cells(after)


@given(ROWS)
def test_merging_changes_no_text(row):
    assert "".join(text for text, _ in merged(row)) == "".join(text for text, _ in row)
    assert merged(merged(row)) == merged(row)


def test_a_difference_ends_at_the_last_changed_cell():
    assert differing((("91%  412   ", "text"),), (("91%  417   ", "text"),)) == (0, 8)
    assert differing((("a", "x"), ("91%", "y"), ("z", "x")), (("a", "x"), ("92%", "y"), ("z", "x"))) == (1, 3)
    assert differing((("a", "x"), ("b", "y")), (("a", "y"), ("b", "y"))) == (0, 1)


def as_cells(row) -> list[tuple[str, str]]:
    """One entry a cell; the second cell of a wide character is empty."""
    out = []
    for text, role in row:
        for char in text:
            size = cell_len(char)
            if size == 0 and out:
                out[-1] = (out[-1][0] + char, role)
            out += [(char, role), ("", role)][:size]
    return out


def test_parts_that_do_not_fit_are_left_out_whole():
    parts = [(("first", "text"),), (("a very long second part", "text"),), (("third", "text"),)]
    assert join_fitting(parts, 14) == (("first", "text"), ("  ", "text"), ("third", "text"))


@given(st.lists(ROWS, max_size=4), st.lists(ROWS, max_size=4), CELLS)
def test_blocks_side_by_side_line_up(left, right, cells):
    rows = beside(left, cells, right, cells)
    assert {width(row) for row in rows} <= {2 * cells + 2}


@given(st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True)), CELLS)
def test_a_meter_has_its_width(share, cells):
    assert width(bars.meter(share, cells)) == cells


def test_a_meter_fills_by_halves():
    assert bars.meter(0.5, 4)[0] == ("━━", "bar")
    assert bars.meter(0.375, 4)[0] == ("━╸", "bar")
    assert bars.meter(2.0, 4) == (("━━━━", "bar"),)
    assert bars.meter(None, 4) == (("    ", "track"),)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=4), st.integers(4, 130))
def test_a_stacked_bar_has_its_width_and_hides_no_part(sizes, cells):
    parts = [(size, "█", f"role{index}") for index, size in enumerate(sizes)]
    row = bars.stacked(parts, cells)
    assert width(row) == cells
    if sum(sizes) > 0:
        assert len(row) == sum(size > 0 for size in sizes)


def test_a_stacked_bar_is_proportional():
    row = bars.stacked([(0.5, "a", "draft"), (26.0, "b", "verify"), (3.5, "c", "gap")], 60)
    assert [(role, len(text)) for text, role in row] == [("draft", 1), ("verify", 52), ("gap", 7)]


@given(st.integers(2, 130), st.floats(1.5, 20), st.floats(0, 30), st.floats(0, 30))
def test_a_scale_has_its_width_and_its_marks_in_order(cells, high, low_mark, high_mark):
    row = bars.scale(1.0, high, cells, limit=2.0, marks=[(low_mark, "a", "x"), (high_mark, "b", "y")])
    assert width(row) == cells
    shown = "".join(text for text, _ in row)
    if low_mark < high_mark and "a" in shown:
        assert shown.index("a") < shown.index("b")


def test_a_scale_is_broken_where_the_depth_ends():
    row = bars.scale(1.0, 6.0, 11, limit=3.0, marks=[(2.0, "●", "value")])
    assert "".join(text for text, _ in row) == "├─●─┃╌╌╌╌╌╌"


@given(st.integers(1, 160))
def test_columns_fill_the_width_exactly_or_are_down_to_one(cells):
    columns = (
        Column("a", "first", 5),
        Column("b", "second", 6, keep=2, flex=1),
        Column("c", "third", 9, keep=1, right=True, flex=2, most=30),
    )
    chosen = choose(columns, cells)
    row = line(chosen, {"a": (("x", "text"),), "c": (("999999999999", "text"),)})
    assert width(row) == width(headings(chosen)) == sum(column.cells for column in chosen) + len(chosen) - 1
    assert width(row) <= max(cells, 5)
    if cells >= 16 and "b" in {column.key for column in chosen}:
        assert width(row) == cells


def test_the_column_that_matters_least_goes_first():
    columns = (Column("a", "a", 5), Column("b", "b", 5, keep=2), Column("c", "c", 5, keep=1))
    assert [column.key for column in choose(columns, 11)] == ["a", "c"]


# ---------------------------------------------------------------------------------------------- graphs


@pytest.mark.parametrize("ascii_", [False, True])
@given(
    VALUES,
    st.integers(1, 60),
    st.integers(1, 9),
    st.floats(allow_nan=True),
    st.floats(allow_nan=True),
)
def test_a_graph_never_raises_and_has_its_size(ascii_, values, cells, rows, low, high):
    glyphs.use(ascii=ascii_)
    try:
        lines = graph.plot(values, cells, rows, low, high, threshold=1.0)
    finally:
        glyphs.use(ascii=False)
    assert len(lines) == rows
    assert {cell_len(text) for text in lines} == {cells}
    assert not ascii_ or all(text.isascii() for text in lines)


@given(VALUES, st.lists(st.one_of(st.none(), st.floats(-1e9, 1e9)), max_size=2), st.floats(0, 100))
def test_bounds_hold_every_value(values, include, least):
    low, high = graph.bounds(values, include=include, least_span=least)
    assert low < high
    finite = [v for v in (*values, *include) if v is not None and abs(v) < 1e12]
    if finite and all(v is None or abs(v) < 1e12 or v != v or abs(v) == float("inf") for v in values):
        tolerance = 1e-6 * max(1.0, max(abs(v) for v in finite))
        assert low - tolerance <= min(finite)
        assert max(finite) <= high + tolerance


def test_bounds_are_round_and_calm():
    assert graph.bounds([29.4, 30.2, 30.9]) == pytest.approx((29.4, 31.0))
    assert graph.bounds([2.0, 2.01], least_span=0.5) == pytest.approx((1.7, 2.3))
    assert graph.bounds([None, None]) == (0.0, 1.0)


def test_a_rising_line_rises():
    assert graph.plot([0, 1, 2, 3], 2, 1, 0, 3) == ["⡠⠊"]


def test_none_breaks_the_line():
    joined = graph.plot([0, 3], 1, 1, 0, 3)
    broken = graph.plot([0, None, 3, 3], 2, 1, 0, 3)
    assert joined == ["⡸"]
    assert broken == ["⡀⠉"]


def test_the_newest_point_is_at_the_right():
    assert graph.plot([3], 3, 1, 0, 3) == ["  ⠈"]


def test_a_history_moves_by_whole_cells():
    values = tuple(float(i % 7) for i in range(50))
    even, odd = (
        Snapshot(at_s=at_s, history=History(cycle_ms=values[:count])) for at_s, count in ((100.0, 49), (101.0, 50))
    )
    assert history(odd.history.cycle_ms, odd, 30, 3) == history(even.history.cycle_ms, even, 30, 3)
    assert history((None, None), even, 30, 3) == []
    assert history(values, even, 8, 3) == []


def test_a_threshold_is_dotted_where_the_line_is_not():
    assert graph.plot([0] * 8, 4, 1, 0, 3, threshold=3) == ["⣀⣀⣀⣀"]
    rows = graph.plot([0] * 8, 4, 2, 0, 7, threshold=7)
    assert rows == ["⠁ ⠁ ", "⣀⣀⣀⣀"]


def test_big_figures_are_three_rows():
    assert big("2.4") == ["╺━┓ ╻ ╻", "┏━┛ ┗━┫", "┗━╸▪  ╹"]
    assert big("—") == [" ", "—", " "]


def test_big_figures_are_plain_in_ascii(ascii_terminal):
    assert big("2.46") == ["    ", "2.46", "    "]
