"""Spans of time on the command line: ``90s``, ``30m``, ``2h``, ``7d``."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    _ParamType = click.ParamType[float]
else:
    _ParamType = click.ParamType

_UNITS_S = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_SPAN = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>min|[smhdw])")


class SpanType(_ParamType):
    """A span of time; its value is seconds."""

    name = "span"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds.

        Raises:
            click.BadParameter: it is no span, or none that ends.
        """
        if isinstance(value, float):
            return value
        found = _SPAN.fullmatch(str(value).strip().lower())
        seconds = float(found["number"]) * _UNITS_S[found["unit"]] if found else 0.0
        if not 0 < seconds < 1e10 or not math.isfinite(seconds):
            self.fail(f"{value!r} is no span of time: 90s, 30m, 2h, 7d", param, ctx)
        return seconds


SPAN = SpanType()
