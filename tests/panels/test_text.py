"""How figures and foreign text are written."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.rig import Figure, Share, Snapshot, Source
from panels import glyphs, text
from tests.panels.builders import HOSTILE

NUMBERS = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True))


@pytest.mark.parametrize(
    ("write", "value", "shown"),
    [
        (text.ms, 0.479, "0.48"),
        (text.ms, 9.996, "10.0"),
        (text.ms, 30.04, "30.0"),
        (text.ms, 412.3, "412"),
        (text.ms, None, "—"),
        (text.tok_s, 61.04, "61.0"),
        (text.tok_s, 99.96, "100"),
        (text.tok_s, 5285.4, "5285"),
        (text.percent, 0.58, "58%"),
        (text.percent, 1.0, "100%"),
        (text.percent, 0.9999, ">99%"),
        (text.percent, 0.0, "0%"),
        (text.percent, 0.0004, "<1%"),
        (text.percent, None, "—"),
        (text.gib, 0, "0"),
        (text.count, 742, "742"),
        (text.count, 1200, "1.2k"),
        (text.count, 38_400, "38k"),
        (text.gib, 429_496_729, "0.4"),
        (text.gib, 150_754_820_096, "140"),
        (text.rate, 0, "0"),
        (text.rate, 1_310_000_000, "1.3G"),
        (text.rate, 38_000_000, "38M"),
        (text.rate, 999_900_000, "1.0G"),
        (text.duration, 8.4, "8s"),
        (text.duration, 200, "3m20s"),
        (text.duration, 11_520, "3h12m"),
        (text.duration, 187_300, "2d4h"),
        (text.duration, float("nan"), "—"),
        (text.age, 0.4, "<1s"),
        (text.age, 251, "4m"),
        (text.age, None, ""),
        (text.clock, 1_796_119_200.0, "10:00:00"),
        (text.clock, 1e300, "—"),
        (text.date, 1_796_119_200.0, "2026-12-01"),
    ],
)
def test_units(write, value, shown):
    assert write(value) == shown


@given(NUMBERS)
def test_no_number_breaks_a_unit(value):
    for write in (
        text.ms,
        text.tok_s,
        text.percent,
        text.gib,
        text.rate,
        text.duration,
        text.age,
        text.clock,
        text.date,
    ):
        shown = write(value)
        assert "nan" not in shown
        assert "inf" not in shown


@given(st.floats(0, 9.99e15))
def test_a_rate_takes_four_cells_at_most_up_to_terabytes(value):
    assert len(text.rate(value)) <= (4 if value < 9.9e14 else 5)


def test_a_share_tells_its_interval():
    assert text.share(Share(value=0.618, low=0.59, high=0.645, tries=1200)) == "62% ±3"
    assert text.share(Share()) == "—"


def test_a_stale_figure_is_greyed_and_says_how_old_it_is():
    snapshot = Snapshot(at_s=1000.0)
    row = text.figure(Figure(value=2.87, source=Source.PROBE, at_s=749.0, stale=True), "2.87", snapshot)
    assert row == (("2.87", "stale"), (" (4m old)", "stale"))


def test_a_missing_figure_is_a_dash_never_zero():
    assert text.figure(Figure(why="no decode yet"), "0.00", Snapshot()) == (("—", "dim"),)


def test_an_origin_names_source_and_age():
    snapshot = Snapshot(at_s=1000.0)
    assert text.origin(Source.SERVER_INFO, 991.0, snapshot) == (("server info 9s", "dim"),)
    assert text.origin(None, 991.0, snapshot) == ()


@pytest.mark.parametrize(
    ("foreign", "shown"),
    [
        ("[bold red]x[/]", "[bold red]x[/]"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("\x9b2J", "\\x9b2J"),
        ("a\tb\nc\rd\x00", "a b\\nc\\rd\\x00"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("\ufeffbom", "\\ufeffbom"),
        ("e\u0301", "é"),
        ("❤\ufe0f", "❤"),
        ("汉字", "汉字"),
        ("مرحبا", "مرحبا"),
        ("\ud800", "\\ud800"),
        ("\u2028line", "\\u2028line"),
        ("\u0301first", "\\u0301first"),
        ("", ""),
    ],
)
def test_foreign_text_is_shown_literally(foreign, shown):
    assert text.clean(foreign) == shown


@given(
    st.one_of(
        st.text(), st.sampled_from(HOSTILE), st.text(st.characters(categories=["Cc", "Cf", "Mn", "Cs", "Co", "So"]))
    )
)
def test_clean_text_holds_nothing_that_moves_a_cursor_or_a_reader(foreign):
    shown = text.clean(foreign)
    assert all(unicodedata.category(char)[0] != "C" for char in shown)
    assert text.clean(shown) == shown


@given(st.text())
def test_an_ascii_terminal_gets_ascii(foreign):
    glyphs.use(ascii=True)
    try:
        assert text.clean(foreign).isascii()
        assert all(char.isprintable() for char in text.clean(foreign))
    finally:
        glyphs.use(ascii=False)


def test_a_name_is_the_last_part_of_a_path():
    assert text.name_of("moonshotai/Kimi-K2.5") == "Kimi-K2.5"
    assert text.name_of("/models/kimi/") == "kimi"
    assert text.name_of("kimi") == "kimi"
