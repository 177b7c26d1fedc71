"""Charts over time: where a moment stands, what is drawn for nothing, no size and no value breaks it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panels import glyphs
from panels.rows import width
from panels.timeline import LABEL_CELLS, SCALE_CELLS, Mark, Timeline, TimelinePanel, Track, _cell

T = 1_796_119_200.0


def drawn(timeline, cells=100, rows=20):
    panel = TimelinePanel()
    panel._timeline = timeline
    return panel.body(None, cells, rows)


def text(rows):
    return ["".join(part for part, _ in row) for row in rows]


def timeline(values=tuple(range(160)), marks=(), step_s=10.0, tracks=1):
    return Timeline(T, step_s, tuple(Track(f"track{n}", "ms", values, 1) for n in range(tracks)), tuple(marks))


def test_scale_labels_and_times():
    rows = text(drawn(timeline()))
    assert rows[0].startswith("track0")
    assert rows[1].startswith("ms")
    assert rows[0][LABEL_CELLS : LABEL_CELLS + SCALE_CELLS].strip() == "160.0"
    assert rows[17][LABEL_CELLS : LABEL_CELLS + SCALE_CELLS].strip() == "0.0"
    assert "↑10:" in rows[-1]
    long = text(drawn(timeline(step_s=3600.0)))
    assert "↑12-" in long[-1], "the day where it is longer than one"


def test_a_mark_stands_below_its_moment():
    room = 82
    line = timeline(values=(1.0,) * (2 * room))
    for share in (0.0, 0.25, 0.5, 0.999):
        at_s = T + share * line.steps * line.step_s
        assert _cell(at_s, line, room) == int(share * room)
    assert _cell(T - 1, line, room) is None
    assert _cell(T + line.steps * line.step_s + 1, line, room) is None
    assert _cell(math.nan, line, room) is None
    rows = drawn(timeline(marks=(Mark(T + 10), Mark(T + 10, fault=True), Mark(T + 1500))))
    marks = text(rows)[-2][LABEL_CELLS + SCALE_CELLS :]
    assert marks.count("✗") == 1
    assert marks.count("▲") == 1, "a fault hides an operation in its cell"


def test_fewer_points_than_fit_stand_at_the_right():
    line = timeline(values=(1.0,) * 20)
    assert _cell(T + 199, line, 82) == 81
    assert _cell(T, line, 82) == 72


def test_nothing_is_said_in_words():
    assert text(drawn(Timeline(note="reading\x1b the journal"))) == ["— reading\\x1b the journal"]
    assert "nothing was recorded" in text(drawn(timeline(values=(None,) * 50)))[0]
    assert "no room" in text(drawn(timeline(), cells=20))[0]
    assert "no room" in text(drawn(timeline(), rows=3))[0]


def test_as_many_charts_as_have_room():
    assert sum("track" in line for line in text(drawn(timeline(tracks=4), rows=7))) == 2
    assert sum("track" in line for line in text(drawn(timeline(tracks=4), rows=40))) == 4


def test_ascii(ascii_terminal):
    rows = text(drawn(timeline(marks=(Mark(T + 800, fault=True),), tracks=3)))
    assert all(line.isascii() for line in rows)


@given(
    values=st.lists(st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True)), max_size=300),
    marks=st.lists(st.floats(allow_nan=True), max_size=5),
    cells=st.integers(1, 200),
    rows=st.integers(0, 60),
    ascii_only=st.booleans(),
)
def test_any_values_in_any_size(values, marks, cells, rows, ascii_only):
    glyphs.use(ascii=ascii_only)
    try:
        line = Timeline(T, 10.0, (Track("a", "b", values), Track("c", "", values[::-1])), tuple(map(Mark, marks)))
        found = drawn(line, cells, rows)
        assert len(found) <= max(rows, 1)
        if len(found) > 1:
            assert all(width(row) <= cells for row in found)
    finally:
        glyphs.use(ascii=False)


@pytest.mark.parametrize("count", [0, 1])
def test_hardly_any_steps(count):
    assert drawn(timeline(values=(1.0,) * count))
