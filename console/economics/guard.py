"""The border of the arithmetic: numbers that cannot be true are refused by name, in one line."""

from __future__ import annotations

import math
from typing import Any

DEPTH_LIMIT = 1000
"""Far above any depth a server drafts at; keeps a typing error from becoming a minute of arithmetic."""

COUNT_LIMIT = 2**63
"""What a counter on a server can hold."""

TOLERANCE = 1e-9
"""Relative: 200 tok/s times 30 ms is 6.000000000000001 as often as 6."""

SUSPICIOUS_LOW = 0.1
SUSPICIOUS_HIGH = 100.0
"""A cycle holds one pass of the target, so it costs about one decode or a few. Outside these multiples of a decode the
numbers are in different units; the extremes seen on real machines are 0.8 and 4."""


class NumberError(ValueError):
    """A number that cannot be true; the message is one line for the operator."""


def number(name: str, value: float) -> float:
    """``value`` as a finite float.

    Raises:
        NumberError: for NaN, infinity, or what is no number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NumberError(f"{name} must be a number, not {value!r}")
    try:
        result = float(value)
    except OverflowError:
        result = math.inf
    if not math.isfinite(result):
        raise NumberError(f"{name} must be a finite number, not {value!r:.40}")
    return result


def positive(name: str, value: float) -> float:
    """``value`` as a finite float above zero."""
    result = number(name, value)
    if result <= 0:
        raise NumberError(f"{name} must be above 0, not {value:g}")
    return result


def not_negative(name: str, value: float) -> float:
    """``value`` as a finite float, zero or more."""
    result = number(name, value)
    if result < 0:
        raise NumberError(f"{name} must not be negative, not {value:g}")
    return result


def fraction(name: str, value: float) -> float:
    """``value`` as a float in 0..1; float dust at the ends is brushed off.

    Raises:
        NumberError: outside, with a hint when it looks like a percentage.
    """
    result = number(name, value)
    if not -TOLERANCE <= result <= 1 + TOLERANCE:
        hint = f"; {result:g} % is {result / 100:g}" if 1 < result <= 100 else ""
        raise NumberError(f"{name} must be a fraction between 0 and 1, not {value:g}{hint}")
    return min(1.0, max(0.0, result))


def count(name: str, value: int) -> int:
    """``value`` as an integer, zero or more."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise NumberError(f"{name} must be a whole number, not {value!r:.40}")
    if value < 0:
        raise NumberError(f"{name} must not be negative, not {value!s:.40}")
    if value > COUNT_LIMIT:
        raise NumberError(f"{name} is too large for a counter")
    return value


def depth(value: float) -> int:
    """``value`` as a draft depth, 0 (speculation off) or more; a gauge gives it as a float."""
    gauge: Any = value
    whole = count("depth", int(gauge) if isinstance(gauge, float) and gauge.is_integer() else gauge)
    if whole > DEPTH_LIMIT:
        raise NumberError(f"depth must be at most {DEPTH_LIMIT}, not {whole}")
    return whole


def result(what: str, value: float) -> float:
    """``value`` when the arithmetic stayed finite; absurd inputs overflow and are named instead of printed as inf."""
    if not math.isfinite(value):
        raise NumberError(f"{what} overflows: the numbers it is made of cannot be right")
    return value


def measured_accept_len(value: float, at_depth: int | None) -> float:
    """A measured accept_len: at least 1 (the bonus token), at most depth + 1.

    Raises:
        NumberError: outside; such data is impossible, so whoever shows it must say so.
    """
    accept_len = number("accept_len", value)
    if accept_len < 1 - TOLERANCE:
        raise NumberError(
            f"accept_len {accept_len:g} is impossible: a round always wins its bonus token, so it is at least 1"
        )
    if at_depth is not None and exceeds(accept_len, at_depth + 1):
        raise NumberError(
            f"accept_len {accept_len:g} is impossible at depth {at_depth}: a round wins at most {at_depth + 1} tokens"
        )
    accept_len = max(1.0, accept_len)
    return accept_len if at_depth is None else min(accept_len, at_depth + 1.0)


def exceeds(value: float, limit: float) -> bool:
    """Whether ``value`` is above ``limit`` by more than float dust."""
    return value > limit * (1 + TOLERANCE)


def unit_suspicion(baseline_tok_s: float, cycle_ms: float) -> str:
    """One line when baseline and cycle cannot be in tok/s and milliseconds; empty when they can.

    A cycle verifies with one pass of the target, so it takes about one decode (1000 / baseline ms) or a few of them.
    """
    share = positive("baseline_tok_s", baseline_tok_s) * positive("cycle_ms", cycle_ms) / 1000.0
    if SUSPICIOUS_LOW <= share <= SUSPICIOUS_HIGH:
        return ""
    decode_ms = 1000.0 / baseline_tok_s
    against = f", where one decode takes {decode_ms:.3g} ms" if math.isfinite(decode_ms) else ""
    if share < SUSPICIOUS_LOW:
        meant = f"; if it is in seconds, say {cycle_ms * 1000:g}" if share * 1000 >= SUSPICIOUS_LOW else ""
    else:
        meant = f"; if it is in microseconds, say {cycle_ms / 1000:g}" if share / 1000 <= SUSPICIOUS_HIGH else ""
    return f"a cycle of {cycle_ms:g} ms is not credible at a baseline of {baseline_tok_s:g} tok/s{against}{meant}"
