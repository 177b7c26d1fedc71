"""Rows of text with roles: what a panel computes and the base widget paints.

A :data:`Row` is a tuple of spans; a span is text and the name of a role (:mod:`panels.palette`). Rows are plain values, so two
of them can be compared, and nothing here knows about a terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len, chop_cells

from panels import glyphs

Span = tuple[str, str]
"""Text and its role."""
Row = tuple[Span, ...]

EMPTY: Row = ()

SOLID = frozenset({"badge"})
"""Roles in which a blank can be seen."""


def width(row: Row) -> int:
    """Cells the row takes."""
    return sum(len(text) if text.isascii() else cell_len(text) for text, _ in row)


def head(text: str, cells: int) -> str:
    """The longest beginning of ``text`` that fits into ``cells``; never half of a wide character."""
    if cells <= 0:
        return ""
    if cell_len(text) <= cells:
        return text
    # No cell holds more than one character of the text once it is clean, so cropping first keeps long lines cheap.
    chopped = chop_cells(text[: cells + 1], cells)
    return chopped[0] if chopped and cell_len(chopped[0]) <= cells else ""


def crop(text: str, cells: int) -> str:
    """``text`` in at most ``cells``, ending in an ellipsis when something was cut."""
    if cell_len(text) <= cells:
        return text
    mark = glyphs.active().ellipsis
    if cells <= len(mark):
        return head(text, cells)
    return head(text, cells - len(mark)) + mark


def crop_middle(text: str, cells: int) -> str:
    """``text`` in at most ``cells``, cut in the middle: names differ at their ends."""
    if cell_len(text) <= cells:
        return text
    mark = glyphs.active().ellipsis
    room = cells - len(mark)
    if room < 4:
        return crop(text, cells)
    tail = head(text[::-1], room // 2)[::-1]
    return head(text, room - cell_len(tail)) + mark + tail


def fit(row: Row, cells: int, role: str = "text") -> Row:
    """The row in exactly ``cells``: cropped with an ellipsis or padded with spaces."""
    used = width(row)
    if used == cells:
        return row
    if used < cells:
        return (*row, (" " * (cells - used), role))
    kept: list[Span] = []
    left = cells
    for text, span_role in row:
        size = cell_len(text)
        if size < left:
            kept.append((text, span_role))
            left -= size
            continue
        cut = crop(text if size > left else text + " ", left)
        kept.append((cut, span_role))
        left -= cell_len(cut)
        break
    if left > 0:
        kept.append((" " * left, role))
    return tuple(kept)


def spread(left: Row, right: Row, cells: int) -> Row:
    """``left`` and ``right`` at the two ends of ``cells``; the right one goes when both do not fit."""
    gap = cells - width(left) - width(right)
    if gap < 1 or not right:
        return fit(left, cells)
    return (*left, (" " * gap, "text"), *right)


def join(parts: Iterable[Row], separator: Span = ("  ", "text")) -> Row:
    """The rows that are not empty, one after the other."""
    spans: list[Span] = []
    for part in parts:
        if part:
            if spans:
                spans.append(separator)
            spans.extend(part)
    return tuple(spans)


def join_fitting(parts: Sequence[Row], cells: int, separator: Span = ("  ", "text")) -> Row:
    """As many of ``parts`` as fit, in order: the first ones matter most, and one that does not fit is left out whole."""
    chosen: list[Row] = []
    used = 0
    gap = cell_len(separator[0])
    for part in parts:
        size = width(part)
        if size and used + size + (gap if chosen else 0) <= cells:
            used += size + (gap if chosen else 0)
            chosen.append(part)
    return join(chosen, separator)


def beside(left: Sequence[Row], left_cells: int, right: Sequence[Row], right_cells: int, gap: int = 2) -> list[Row]:
    """Two blocks of rows side by side."""
    count = max(len(left), len(right))
    space = (" " * gap, "text")
    return [
        (
            *fit(left[i] if i < len(left) else EMPTY, left_cells),
            space,
            *fit(right[i] if i < len(right) else EMPTY, right_cells),
        )
        for i in range(count)
    ]


def wrap(text: str, cells: int, role: str, lines: int) -> list[Row]:
    """``text`` over at most ``lines`` rows, broken at spaces where there are some; the last one ends in an ellipsis if cut."""
    if cells < 1 or lines < 1:
        return []
    rows: list[Row] = []
    rest = text.strip()
    while rest and len(rows) < lines - 1 and cell_len(rest) > cells:
        piece = head(rest, cells)
        if not piece:
            break
        at = piece.rfind(" ")
        if at > cells // 2 and not rest[len(piece) : len(piece) + 1].isspace():
            piece = piece[:at]
        rows.append(((piece.rstrip(), role),))
        rest = rest[len(piece) :].lstrip()
    if rest:
        rows.append(((crop(rest, cells), role),))
    return rows


def merged(row: Iterable[Span]) -> Row:
    """The row with neighbours of one role put together, and blanks put to the span before them.

    A blank looks the same in every role, and a span less is a style less to send.
    """
    spans: list[Span] = []
    for text, role in row:
        if not text:
            continue
        if spans and (spans[-1][1] == role or (text.isspace() and spans[-1][1] not in SOLID)):
            spans[-1] = (spans[-1][0] + text, spans[-1][1])
        else:
            spans.append((text, role))
    return tuple(spans)


def differing(before: Row, after: Row) -> tuple[int, int]:
    """The cells, from inclusive to exclusive, between the first and the last that differ."""
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    limit = min(len(before), len(after)) - start
    while end < limit and before[-1 - end] == after[-1 - end]:
        end += 1
    left = width(before[:start])
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    right = left + max(width(old), width(new))
    if len(old) == len(new) == 1 and old[0][1] == new[0][1]:
        right -= _common_tail(old[0][0], new[0][0])
    return left, max(left + 1, right)


def _common_tail(before: str, after: str) -> int:
    """Cells at the end of two texts that are the same; none where characters are not one cell each."""
    size = len(before)
    if size != len(after) or cell_len(before) != size or cell_len(after) != size:
        return 0
    count = 0
    while count < size and before[-1 - count] == after[-1 - count]:
        count += 1
    return count
