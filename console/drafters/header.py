"""Reads a safetensors header without loading a tensor, and says plainly what else the bytes are.

Format (github.com/huggingface/safetensors, "Format"): 8 bytes little-endian header length N, N bytes of JSON
``{name: {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {...}}``, then the data without holes.
Nothing is executed, no pickle is opened, and a hostile header costs neither memory nor time: :data:`HEADER_LIMIT_BYTES`
is far above any drafter's header and far below what could hurt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise

import msgspec

HEADER_LIMIT_BYTES = 1 << 20
"""An EAGLE-3 header takes 2 to 10 kB; safetensors itself would allow 100 MB."""

DTYPE_BITS = {
    **dict.fromkeys(("F4",), 4),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
}
"""Bits of one element by safetensors dtype name."""

LFS_POINTER = b"version https://git-lfs.github.com/spec/v1"
ReadAt = Callable[[int, int], bytes]
"""(offset, length) -> the bytes there; fewer at the end of the file."""


class UnreadableError(Exception):
    """The file is no complete safetensors file; ``kind`` is a short word for machines, the text for people."""

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        super().__init__(text)


class Tensor(msgspec.Struct, frozen=True):
    """Dtype, shape and place of one tensor."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]

    @property
    def bits(self) -> int:
        """Size of the data by shape and dtype."""
        count = 1
        for side in self.shape:
            count *= side
        return count * DTYPE_BITS[self.dtype]


class Header(msgspec.Struct, frozen=True):
    """The tensors of one file, by name, and where their data begins."""

    tensors: dict[str, Tensor]
    data_start: int
    metadata: dict[str, str] = {}


def gigabytes(size_bytes: int) -> str:
    """A file size as the hub prints it: decimal units."""
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.2f} {unit}"
    return f"{size_bytes} B"


def read_header(read_at: ReadAt, file_bytes: int) -> Header:
    """Read and check the header of a file of ``file_bytes`` bytes.

    Raises:
        UnreadableError: with the reason, when this is no complete safetensors file.
    """
    start = read_at(0, min(file_bytes, 512))
    refuse_lookalike(start, file_bytes)
    if file_bytes < 8 or len(start) < 8:
        raise UnreadableError("truncated", f"{file_bytes} bytes: too short to be a safetensors file")
    length = int.from_bytes(start[:8], "little")
    if length > file_bytes - 8:
        raise UnreadableError("truncated", f"the header says it has {length} bytes, the file ends after {file_bytes}")
    if length > HEADER_LIMIT_BYTES:
        raise UnreadableError(
            "header-too-large", f"a header of {gigabytes(length)}; no drafter has more than 1 MB of it"
        )
    text = start[8 : 8 + length]
    if len(text) < length:
        text += read_at(8 + len(text), length - len(text))
    if len(text) < length:
        raise UnreadableError("truncated", f"only {len(text)} of {length} header bytes could be read")
    tensors, metadata = _parse(text)
    _check_layout(tensors, file_bytes - 8 - length)
    return Header(tensors, 8 + length, metadata)


def refuse_lookalike(start: bytes, file_bytes: int, *, pickled: bool = False) -> None:
    """Name what people really have when a download went wrong.

    Args:
        start: the first bytes.
        file_bytes: size of the file.
        pickled: a zip or a pickle is what the name promises.

    Raises:
        UnreadableError: it is not the content that it is named after.
    """
    if file_bytes == 0:
        raise UnreadableError("empty", "the file is empty")
    if start.startswith(LFS_POINTER):
        found = re.search(rb"\nsize (\d{1,18})", start)
        size = f" to {gigabytes(int(found[1]))}" if found else ""
        raise UnreadableError("lfs-pointer", f"a Git LFS pointer{size}, not the content: fetch it (git lfs pull)")
    if start.lstrip()[:1] == b"<":
        raise UnreadableError("html", "an HTML page saved under this name, not data: download it again")
    if pickled:
        return
    if start.startswith(b"PK\x03\x04"):
        raise UnreadableError("torch-zip", "a zip archive (torch's .bin format) under a safetensors name")
    if start.startswith((b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")) and b"." not in start[2:8]:
        raise UnreadableError("pickle", "a Python pickle under a safetensors name; it is not opened")


def _parse(text: bytes) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        entries = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise UnreadableError("bad-header", f"the header is no JSON object: {_short(error)}") from error
    metadata: dict[str, str] = {}
    tensors: dict[str, Tensor] = {}
    for name, raw in entries.items():
        try:
            if name == "__metadata__":
                metadata = msgspec.json.decode(raw, type=dict[str, str])
            else:
                tensors[name] = msgspec.json.decode(raw, type=Tensor)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise UnreadableError("bad-header", f"the entry {name[:80]!r} is malformed: {_short(error)}") from error
    if text.count(b'"data_offsets"') > len(tensors) and (twice := _first_duplicate(text)):
        raise UnreadableError("bad-header", f"the name {twice[:80]!r} stands twice in the header")
    return tensors, metadata


def _first_duplicate(text: bytes) -> str:
    """A tensor name that stands twice; the format forbids it and readers differ in which one they take."""

    def refuse(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if len(found := dict(pairs)) < len(pairs):
            names = [name for name, _ in pairs]
            raise _DuplicateError(next(name for name in names if names.count(name) > 1))
        return found

    try:
        json.loads(text, object_pairs_hook=refuse)
    except _DuplicateError as error:
        return str(error)
    except (ValueError, RecursionError):
        return ""
    return ""


class _DuplicateError(Exception):
    """Raised inside the JSON reader."""


def _check_layout(tensors: dict[str, Tensor], data_bytes: int) -> None:
    """Every size right, no hole, no overlap, nothing missing or left over at the end."""
    for name, tensor in tensors.items():
        begin, end = tensor.data_offsets
        if tensor.dtype not in DTYPE_BITS:
            raise UnreadableError("bad-header", f"{name[:80]!r} has the unknown dtype {tensor.dtype[:20]!r}")
        if len(tensor.shape) > 8 or any(side < 0 for side in tensor.shape):
            raise UnreadableError("bad-header", f"{name[:80]!r} has an impossible shape")
        if begin < 0 or end < begin or (end - begin) * 8 != tensor.bits:
            raise UnreadableError("bad-header", f"{name[:80]!r}: {end - begin} bytes do not fit its shape and dtype")
    spans = sorted(tensor.data_offsets for tensor in tensors.values())
    if spans and spans[0][0] != 0:
        raise UnreadableError("bad-header", f"the data begins at byte {spans[0][0]} instead of 0")
    for (_, before), (after, _) in pairwise(spans):
        if before != after:
            raise UnreadableError(
                "bad-header", f"tensors {'overlap' if after < before else 'leave a hole'} at byte {after}"
            )
    needed = spans[-1][1] if spans else 0
    if data_bytes < needed:
        raise UnreadableError(
            "truncated",
            f"cut short: {gigabytes(data_bytes)} of {gigabytes(needed)} data are there, {needed - data_bytes} bytes missing",
        )
    if data_bytes > needed:
        raise UnreadableError("trailing-junk", f"{data_bytes - needed} bytes too many at the end")


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:120]
