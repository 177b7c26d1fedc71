"""How figures and foreign text are written. One place for units, the dash and its reason, and for harmless text."""

from __future__ import annotations

import math
import time
import unicodedata
from typing import TypeGuard

from console.rig import Figure, Share, Snapshot, Source, age_s
from panels import glyphs
from panels.rows import Row

_KEPT_MARKS = 2
"""Combining marks kept on one character; more is an attack on the layout, not a language."""


def clean(text: str) -> str:
    r"""Foreign text as it is shown: literally, on one line, with nothing a terminal or a reader could mistake.

    Tabs become a space. Control characters, escapes, zero-width and direction-changing characters are written as ``\x1b`` or
    ``\u202e``; variation selectors, which only choose a picture, go. In ASCII mode everything else that is not ASCII is
    escaped too.
    """
    if text.isascii() and text.isprintable():
        return text
    out: list[str] = []
    marks = 0
    for char in unicodedata.normalize("NFC", text):
        category = unicodedata.category(char)
        if category in ("Mn", "Mc"):
            marks += 1
            if "\ufe00" <= char <= "\ufe0f":
                continue
            out.append(char if 0 < marks <= _KEPT_MARKS and out else _escaped(char))
            continue
        marks = 0
        if char == "\t":
            out.append(" ")
        elif category[0] == "C" or category in ("Zl", "Zp", "Me") or _sizes_its_neighbour(char):
            out.append(_escaped(char))
        elif category == "Zs":
            out.append(" ")
        else:
            out.append(char)
    shown = unicodedata.normalize("NFC", "".join(out))
    return shown.encode("ascii", "backslashreplace").decode() if glyphs.active().ascii else shown


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _sizes_its_neighbour(char: str) -> bool:
    """Whether terminals disagree on the width of this one: skin tones, flag letters, conjoining Hangul, fillers."""
    code = ord(char)
    return (
        0x1F3FB <= code <= 0x1F3FF
        or 0x1F1E6 <= code <= 0x1F1FF
        or 0x1160 <= code <= 0x11FF
        or code in (0x115F, 0x3164, 0xFFA0)
        or 0xD7B0 <= code <= 0xD7FF
    )


def name_of(path: str) -> str:
    """The last part of a folder or a repository: what people call it."""
    return clean(path.rstrip("/").rpartition("/")[2] or path)


# ---------------------------------------------------------------------------------------------- numbers


def number(value: float | None, decimals: int = 0) -> str:
    """A number, or a dash for none and for what is not finite."""
    return f"{value:.{decimals}f}" if _known(value) else glyphs.active().dash


def ms(value: float | None) -> str:
    """Milliseconds with three figures that mean something: 0.48, 5.10, 30.1, 412."""
    size = abs(value or 0.0)
    return number(value, 2 if size < 9.995 else 1 if size < 99.95 else 0)


def tok_s(value: float | None) -> str:
    """Tokens a second: 61.0, 439, 5285."""
    return number(value, 1 if abs(value or 0.0) < 99.95 else 0)


def percent(fraction: float | None, decimals: int = 0) -> str:
    """A fraction as a percentage; 100 % and 0 % are said only when they are exact."""
    if not _known(fraction):
        return glyphs.active().dash
    shown = number(fraction * 100, decimals)
    if shown == "100" and fraction < 1:
        shown = ">99"
    elif shown == "0" and fraction > 0:
        shown = "<1"
    return f"{shown}%"


def count(value: int) -> str:
    """How many, in at most five characters: 742, 1.2k, 38k, 4.1M."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if value >= size:
            return f"{number(value / size, 1 if value < 9.95 * size else 0)}{unit}"
    return str(value)


def gib(value_bytes: float | None) -> str:
    """Binary gigabytes, as nvidia-smi counts memory: 0.4, 121."""
    size = (value_bytes or 0.0) / 2**30
    return number(None if value_bytes is None else size, 1 if 0 < size < 9.95 else 0)


def rate(bytes_s: float | None) -> str:
    """Bytes a second in at most four characters: 1.2G, 38M, 0."""
    if not _known(bytes_s):
        return glyphs.active().dash
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if bytes_s >= 0.9995 * size:
            return f"{number(bytes_s / size, 1 if bytes_s < 9.95 * size else 0)}{unit}"
    return number(bytes_s)


def duration(seconds: float | None) -> str:
    """A length of time in two units at most: 8s, 3m20s, 3h12m, 2d4h."""
    if not _known(seconds):
        return glyphs.active().dash
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600}h"


def age(seconds: float | None) -> str:
    """How old a figure is: <1s, 4s, 4m, 3h, 12d. One unit: nobody reads the seconds of an hour."""
    if not _known(seconds):
        return ""
    if seconds < 1:
        return "<1s"
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def clock(at_s: float | None) -> str:
    """Time of day in the operator's zone."""
    return _local("%H:%M:%S", at_s)


def date(at_s: float | None) -> str:
    """Day in the operator's zone."""
    return _local("%Y-%m-%d", at_s)


def _local(form: str, at_s: float | None) -> str:
    if _known(at_s):
        try:
            return time.strftime(form, time.localtime(at_s))
        except (OverflowError, ValueError, OSError):
            pass  # a time no calendar knows is no time
    return glyphs.active().dash


def _known(value: float | None) -> TypeGuard[float]:
    """Whether there is a number to write."""
    return value is not None and math.isfinite(value)


# ---------------------------------------------------------------------------------- figures with their origin


def origin(source: Source | None, at_s: float | None, snapshot: Snapshot, *, stale: bool = False) -> Row:
    """Where a figure comes from and how old it is: ``probe <1s``."""
    if source is None:
        return ()
    words = " ".join(part for part in (source.value.replace("_", " "), age(age_s(at_s, snapshot))) if part)
    return ((f"{words} {glyphs.active().separator} stale" if stale else words, "stale" if stale else "dim"),)


def figure(item: Figure, shown: str, snapshot: Snapshot, role: str = "value") -> Row:
    """A figure in its role; greyed with its age when stale, a dash when there is none."""
    if item.value is None:
        return ((glyphs.active().dash, "dim"),)
    if item.stale:
        old = age(age_s(item.at_s, snapshot))
        return ((shown, "stale"), (f" ({old} old)" if old else " (old)", "stale"))
    return ((shown, role),)


def nothing(why: str, fallback: str = "not measured yet") -> Row:
    """A dash and the reason for it."""
    return ((f"{glyphs.active().dash} ", "dim"), (clean(why) or fallback, "dim"))


def share(item: Share) -> str:
    """A fraction with the half-width of its 95 % interval: ``58% ±3``."""
    if item.value is None:
        return glyphs.active().dash
    if item.low is None or item.high is None:
        return percent(item.value)
    half = max(item.high - item.value, item.value - item.low) * 100
    return f"{percent(item.value)} {glyphs.active().plus_minus}{number(half, 0 if half >= 1 else 1)}"
