"""Figures over time as a client gets them: light to import, unlike the journal they come from."""

from __future__ import annotations

import msgspec


class Chart(msgspec.Struct, frozen=True):
    """Means over equal steps; ``None`` where nothing was recorded."""

    since_s: float
    """Beginning of the first step, a whole multiple of :attr:`step_s`."""
    step_s: float
    columns: dict[str, tuple[float | None, ...]]
    """By the names of the journal's series (``cycle_ms``, ``accept_len``, ``tok_s``, ...), each as long as there are steps."""
