"""Taking values out of other people's JSON: whatever stands there, a wrong type is "not known", never an exception."""

from __future__ import annotations

import math
from typing import Any


def number(value: Any) -> float | None:
    """A finite number; ``None`` for anything else, booleans included."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        result = float(value)
    except OverflowError:
        return None
    return result if math.isfinite(result) else None


def count(value: Any) -> int | None:
    """A whole number; ``None`` for anything else."""
    result = number(value)
    return int(result) if result is not None and result == int(result) else None


def text(value: Any) -> str:
    """A string; empty for anything else."""
    return value if isinstance(value, str) else ""


def mapping(value: Any) -> dict[str, Any]:
    """A JSON object; empty for anything else."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """A JSON list; empty for anything else."""
    return value if isinstance(value, list) else []
