"""Two drafters on this disk side by side: is one a fine-tune of the other, or are they strangers?

Tensors are compared by name, shape and dtype; values by a sample spread over each tensor, so that 2 x 2.4 GB take a fraction
of a second and need neither torch nor numpy. The measure is the relative distance ||a - b|| / ||a||: 0 for equal tensors, about
1.41 for independent ones of equal size.
"""

from __future__ import annotations

import math
import struct
import sys
from array import array
from collections.abc import Sequence

import msgspec

from console.drafters.header import Tensor, UnreadableError
from console.drafters.source import Checkpoint
from console.drafters.subject import Drafter
from console.drafters.vocabulary import target_ids

BLOCKS = 16
BLOCK_ELEMENTS = 512
RELATED_BELOW = 0.7
"""Median relative distance under which two drafters share a start; independent ones lie near 1.41."""
SKIP = ("d2t", "t2d")


class Row(msgspec.Struct, frozen=True):
    """One tensor of either drafter."""

    name: str
    ours: str
    theirs: str
    distance: float | None
    """Relative, from a sample; ``None`` when it cannot be compared."""


class Comparison(msgspec.Struct, frozen=True):
    """What two drafters have in common."""

    relation: str
    """same weights, fine-tune of the same start, unrelated, or not comparable."""
    why: str
    rows: tuple[Row, ...]
    median_distance: float | None
    vocabulary_overlap: float | None
    """Share of our draft tokens that the other drafter also has."""
    head_note: str = ""


def compare(ours: Drafter, our_files: Checkpoint, theirs: Drafter, their_files: Checkpoint) -> Comparison:
    """Compare two drafters whose files are on this disk. Never raises for what a file holds."""
    mine, other = ours.weights.tensors, theirs.weights.tensors
    rows = []
    for name in sorted(mine.keys() | other.keys()):
        a, b = mine.get(name), other.get(name)
        distance = None
        if a and b and a.shape == b.shape and name not in SKIP:
            distance = relative_distance(sample(our_files, ours, name), sample(their_files, theirs, name))
        rows.append(Row(name, _shown(a), _shown(b), distance))
    known = sorted(row.distance for row in rows if row.distance is not None)
    median = known[len(known) // 2] if known else None
    relation, why = _relation(rows, median)
    overlap = _overlap(ours, theirs)
    note = ""
    if overlap is not None and ours.d2t != theirs.d2t:
        note = "the draft vocabularies differ: re-map the rows of lm_head before training from it"
    return Comparison(relation, why, tuple(rows), median, overlap, note)


def _shown(tensor: Tensor | None) -> str:
    return "-" if tensor is None else f"{tensor.dtype} {list(tensor.shape)}"


def _relation(rows: list[Row], median: float | None) -> tuple[str, str]:
    different = [row.name for row in rows if row.ours != row.theirs]
    if median is None:
        return "not comparable", f"no tensor of equal shape{'; ' + different[0] + ' differs' if different else ''}"
    if median == 0.0 and not different:
        moved = [row for row in rows if row.distance]
        if not moved:
            return "same weights", "every sampled value is equal"
    if median < RELATED_BELOW:
        return "fine-tune of the same start", f"median distance {median:.3f}; strangers lie near 1.41"
    return "unrelated", f"median distance {median:.2f}: as far apart as independent weights"


def _overlap(ours: Drafter, theirs: Drafter) -> float | None:
    if ours.d2t is None or theirs.d2t is None or not len(ours.d2t):
        return None
    mine = set(target_ids(ours.d2t))
    return len(mine & set(target_ids(theirs.d2t))) / len(mine)


def sample(files: Checkpoint, drafter: Drafter, name: str) -> list[float] | None:
    """Up to :data:`BLOCKS` x :data:`BLOCK_ELEMENTS` values spread evenly; ``None`` for a dtype that is no plain float."""
    tensor = drafter.weights.tensors[name]
    width = {"BF16": 2, "F16": 2, "F32": 4}.get(tensor.dtype)
    if width is None:
        return None
    file, offset = drafter.weights.places[name]
    count = (tensor.data_offsets[1] - tensor.data_offsets[0]) // width
    block = min(BLOCK_ELEMENTS, count)
    starts = {(count - block) * index // max(BLOCKS - 1, 1) for index in range(BLOCKS)}
    values: list[float] = []
    for start in sorted(starts):
        try:
            data = files.read(file, offset + start * width, block * width)
        except UnreadableError:
            return None
        values += floats(data[: len(data) // width * width], tensor.dtype)
    return values


def floats(data: bytes, dtype: str) -> Sequence[float]:
    """Little-endian BF16, F16 or F32 as Python floats. A bfloat16 is the upper half of a float32."""
    if dtype == "F16":
        return struct.unpack(f"<{len(data) // 2}e", data)
    if dtype == "BF16":
        widened = bytearray(len(data) * 2)
        widened[2::4], widened[3::4] = data[0::2], data[1::2]
        data = bytes(widened)
    values = array("f", data)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def relative_distance(a: Sequence[float] | None, b: Sequence[float] | None) -> float | None:
    """||a - b|| / ||a||; ``None`` when it is undefined."""
    if a is None or b is None or len(a) != len(b):
        return None
    norm = math.fsum(x * x for x in a)
    if not math.isfinite(norm):
        return None
    gap = math.fsum((x - y) * (x - y) for x, y in zip(a, b, strict=True))
    if not math.isfinite(gap):
        return None
    if norm == 0.0:
        return 0.0 if gap == 0.0 else None
    return math.sqrt(gap / norm)
