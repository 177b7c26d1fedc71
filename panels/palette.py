"""Roles of text and the styles a theme gives them.

A theme may set ``panel-<role>`` among its variables (``console.themes`` does); any other theme is served from Textual's own
``success``, ``warning``, ``error`` and so on. Every role that means a state has a word or a symbol beside it.
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.style import Style
from textual.color import Color, ColorParseError

_FALLBACKS: dict[str, str] = {
    "text": "foreground",
    "value": "foreground",
    "title": "primary",
    "focus": "accent",
    "accent": "accent",
    "good": "success",
    "warn": "warning",
    "bad": "error",
    "draft": "accent",
    "verify": "primary",
    "extend": "success",
    "bar": "primary",
    "graph": "primary",
    "goal": "accent",
    "badge": "warning",
}
"""Role -> the variable of Textual's that stands in."""

_FADED: dict[str, float] = {"dim": 0.62, "label": 0.75, "stale": 0.5, "frame": 0.32, "track": 0.25, "gap": 0.45}
"""Role -> how much of the foreground is left, mixed into the background."""

_BOLD = frozenset({"value", "title", "bad", "badge", "focus", "heading"})
_ITALIC = frozenset({"stale"})
_REVERSE = frozenset({"badge"})

ROLES = (*_FALLBACKS, *_FADED, "heading")
"""Every role a span may have."""


class Palette:
    """Styles by role for one theme on one background."""

    def __init__(self, variables: Mapping[str, str], background: Color) -> None:
        self._background = background
        foreground = _parsed(variables.get("foreground")) or Color.parse("ansi_default")
        self._styles = {role: self._style(role, variables, foreground) for role in ROLES}
        self._text = self._styles["text"]

    def __getitem__(self, role: str) -> Style:
        return self._styles.get(role, self._text)

    def _style(self, role: str, variables: Mapping[str, str], foreground: Color) -> Style:
        color = _parsed(variables.get(f"panel-{role}"))
        faded = color is None and role in _FADED
        if color is None and not faded:
            color = _parsed(variables.get(_FALLBACKS.get(role, "foreground")))
        if color is None:
            color = self._fade(foreground, _FADED[role]) if faded else foreground
        return Style(
            color=color.rich_color,
            bgcolor=self._background.rich_color,
            bold=role in _BOLD,
            italic=role in _ITALIC,
            reverse=role in _REVERSE,
            dim=faded and foreground.ansi is not None,
        )

    def _fade(self, foreground: Color, share: float) -> Color:
        if foreground.ansi is not None or self._background.ansi is not None:
            return foreground
        return self._background.blend(foreground, share, alpha=1.0)


def _parsed(text: str | None) -> Color | None:
    """The colour of a theme variable; none for "auto 60%" and the like, which mean something in CSS only."""
    if not text:
        return None
    try:
        return Color.parse(text)
    except ColorParseError:
        return None
