"""The characters panels draw with: one set for UTF-8 terminals, one of plain ASCII.

The app calls :func:`use` once, before the first frame. Panels ask :func:`active` each time they draw.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set of characters. Every one is a single cell wide, except :attr:`ellipsis` and :attr:`arrow` in ASCII."""

    ascii: bool = False
    dash: str = "—"
    """Stands for a figure that is not there."""
    ellipsis: str = "…"
    separator: str = "·"
    degree: str = "°"
    plus_minus: str = "±"
    at_least: str = "≥"
    times: str = "\u00d7"
    arrow: str = "→"
    up: str = "↑"
    down: str = "↓"

    ok: str = "●"
    warn: str = "▲"
    bad: str = "✗"
    done: str = "✓"
    busy: str = "◐"
    idle: str = "○"
    paused: str = "‖"

    bar_full: str = "━"
    bar_half: str = "╸"
    bar_track: str = "─"
    stages: tuple[str, str, str, str] = ("▓", "█", "▒", "░")
    """Fills of draft, verify, extend and gap: told apart without colour."""
    scale: str = "─"
    scale_beyond: str = "╌"
    """The part of a scale that the present depth cannot reach."""
    scale_low: str = "├"
    scale_high: str = "┤"
    scale_limit: str = "┃"
    mark_now: str = "●"
    mark_break_even: str = "▲"
    mark_goal: str = "◆"
    interval: str = "┄"

    top_left: str = "╭"
    top_right: str = "╮"
    bottom_left: str = "╰"
    bottom_right: str = "╯"
    horizontal: str = "─"
    vertical: str = "│"
    thumb: str = "┃"
    """The part of a frame's right edge that shows where a scrolled list stands."""


UNICODE = Glyphs()
ASCII = Glyphs(
    ascii=True,
    dash="-",
    ellipsis="..",
    separator="|",
    degree="",
    plus_minus="+-",
    at_least=">=",
    times="x",
    arrow="->",
    up="^",
    down="v",
    ok="*",
    warn="!",
    bad="X",
    done="+",
    busy="%",
    idle="o",
    paused="=",
    bar_full="#",
    bar_half="=",
    bar_track=".",
    stages=("d", "V", "e", "."),
    scale="-",
    scale_beyond=".",
    scale_low="|",
    scale_high="|",
    scale_limit="]",
    mark_now="O",
    mark_break_even="^",
    mark_goal="G",
    interval="~",
    top_left="+",
    top_right="+",
    bottom_left="+",
    bottom_right="+",
    horizontal="-",
    vertical="|",
    thumb="#",
)

_active = UNICODE


def use(*, ascii: bool) -> None:  # noqa: A002 - the word users of terminals know
    """Choose the set for this process."""
    global _active  # noqa: PLW0603 - one terminal, one choice
    _active = ASCII if ascii else UNICODE


def active() -> Glyphs:
    """The set in use."""
    return _active
