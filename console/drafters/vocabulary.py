"""The reduced draft vocabulary: d2t (offsets) and t2d (mask), read from a local file.

target_id = draft_id + d2t[draft_id] (``models/llama_eagle3.py`` of SGLang 0.5.23, where it becomes ``hot_token_id``).
"""

from __future__ import annotations

import sys
from array import array

from console.drafters.header import UnreadableError
from console.drafters.source import Checkpoint
from console.drafters.weights import Weights

MAX_ENTRIES = 4 << 20
TYPE_CODES = {"I64": "q", "I32": "i", "I16": "h", "U8": "B", "BOOL": "B", "I8": "b"}


def read_vector(checkpoint: Checkpoint, weights: Weights, name: str) -> array[int] | None:
    """The values of a one-dimensional integer tensor; ``None`` when it is absent, remote or of another kind."""
    tensor = weights.tensors.get(name)
    if tensor is None or checkpoint.path is None or tensor.dtype not in TYPE_CODES or len(tensor.shape) != 1:
        return None
    begin, end = tensor.data_offsets
    if tensor.shape[0] > MAX_ENTRIES:
        return None
    file, offset = weights.places[name]
    try:
        data = checkpoint.read(file, offset, end - begin)
    except UnreadableError:
        return None
    values = array(TYPE_CODES[tensor.dtype])
    if len(data) != tensor.shape[0] * values.itemsize:
        return None
    values.frombytes(data)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def target_ids(d2t: array[int]) -> list[int]:
    """The target's token of each draft token."""
    return [index + offset for index, offset in enumerate(d2t)]


def fault_of(d2t: array[int], vocab_size: int, t2d: array[int] | None) -> str:
    """What is wrong with a d2t, or nothing."""
    ids = target_ids(d2t)
    outside = next((i for i, token in enumerate(ids) if not 0 <= token < vocab_size), None)
    absolute = t2d is not None and {i for i, flag in enumerate(t2d) if flag} == set(d2t)
    if absolute and set(ids) != set(d2t):
        return "it holds absolute token ids where SGLang expects offsets"
    if outside is not None:
        return f"entry {outside} points to token {ids[outside]}, outside 0..{vocab_size - 1}"
    if len(set(ids)) < len(ids):
        return f"{len(ids) - len(set(ids))} draft tokens point to a token that another one already has"
    falling = next((i for i in range(1, len(ids)) if ids[i] <= ids[i - 1]), None)
    if falling is not None:
        return f"the tokens are not in rising order at entry {falling}"
    return ""
