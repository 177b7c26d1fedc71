"""What each source has said of the engine, in one form, so that choosing between sources is one rule.

A :class:`Window` is a stretch of time in which decoding happened; a source that sees no new decode keeps its
last window, which grows old. A :class:`Gauges` is what holds at one moment whether or not anything decodes.
"""

from __future__ import annotations

import math

import msgspec

from console import rig


class RankWindow(msgspec.Struct, frozen=True):
    """Stage means of one rank; milliseconds per round."""

    rank: int
    draft_ms: float | None = None
    verify_ms: float | None = None
    extend_ms: float | None = None


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one source over its last stretch with decodes; ``None`` for what it does not know.

    ``at_s`` is when the last decode in it was seen. ``tries`` and ``hits`` are by draft position over
    ``rounds`` request-rounds: how often it was reached, and accepted.
    """

    source: rig.Source
    at_s: float
    cycle_ms: float | None = None
    batch: float | None = None
    accept_len: float | None = None
    accept_rate: float | None = None
    tok_s: float | None = None
    depth: float | None = None
    graph_share: float | None = None
    draft: rig.Stage | None = None
    verify: rig.Stage | None = None
    extend: rig.Stage | None = None
    ranks: tuple[RankWindow, ...] = ()
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    tries: tuple[int, ...] = ()
    hits: tuple[int, ...] = ()


class Gauges(msgspec.Struct, frozen=True, kw_only=True):
    """What one source says holds now."""

    source: rig.Source
    at_s: float
    running: float | None = None
    queued: float | None = None
    token_usage: float | None = None
    depth: float | None = None
    tok_s: float | None = None
    """A rate the engine keeps itself; sticky, so it counts only while something runs."""


class Readings(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of the engine at one moment, best source first in each tuple: probe, loads, metrics, log."""

    windows: tuple[Window, ...] = ()
    gauges: tuple[Gauges, ...] = ()
    depth_launch: int | None = None
    depth_pinned: bool | None = None
    why: dict[str, str] = {}
    """Why a source is silent, by name of the source."""
    probe: rig.ProbeStatus = rig.ProbeStatus()


def finite(value: object) -> float | None:
    """A number as a float; ``None`` for NaN, infinities, and what is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
