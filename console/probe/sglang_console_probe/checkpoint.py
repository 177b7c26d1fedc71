"""A drafter's checkpoint: config.json and safetensors, read into memory of our own.

A mapping of the file would be quicker, but a file that shrinks under a mapping kills the process that reads it.
Format: https://huggingface.co/docs/safetensors (8 bytes little-endian length, JSON header, data).
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

HEADER_LIMIT_BYTES = 64 * 1024 * 1024
SAMPLE = 4096
"""Values looked at, at both ends of each tensor, for NaN and infinity before anything is loaded."""
DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}
FLOATS = ("F64", "F32", "F16", "BF16")


class CheckpointRefused(Exception):  # noqa: N818 - the name says what happened
    """The checkpoint cannot be used; nothing was loaded."""


@dataclass(frozen=True)
class Entry:
    """One tensor as the header has it."""

    dtype: str
    shape: tuple[int, ...]
    file: Path
    start: int
    """Byte in the file."""
    size: int


@dataclass
class Checkpoint:
    """What a folder holds, by its headers."""

    path: Path
    config: dict[str, Any]
    entries: dict[str, Entry]
    fingerprint: str
    """Of headers, sizes and modification times: two ranks that read the same files have the same."""
    tensors: dict[str, Any] = field(default_factory=dict)
    """Filled by :func:`load`."""

    @property
    def size(self) -> int:
        """Bytes of all tensors."""
        return sum(entry.size for entry in self.entries.values())


def open_checkpoint(path: Path) -> Checkpoint:
    """Read config and headers.

    Raises:
        CheckpointRefused: a file is missing, cut off or none of its kind.
    """
    if not path.is_dir():
        raise CheckpointRefused(f"no such folder: {path}")
    try:
        config = json.loads((path / "config.json").read_bytes())
    except FileNotFoundError:
        raise CheckpointRefused(f"{path} has no config.json") from None
    except (OSError, ValueError) as error:
        raise CheckpointRefused(f"config.json cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise CheckpointRefused("config.json holds no object")
    files = sorted(path.glob("*.safetensors"))
    if not files:
        raise CheckpointRefused(f"{path} has no safetensors file")
    digest, entries = hashlib.sha256(), {}
    for file in files:
        entries.update(_read_header(file, digest))
    return Checkpoint(path, config, entries, digest.hexdigest()[:16])


def _read_header(file: Path, digest: Any) -> dict[str, Entry]:
    try:
        with file.open("rb") as stream:
            status = os.fstat(stream.fileno())
            start = stream.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else -1
            if not 0 < length <= min(HEADER_LIMIT_BYTES, status.st_size - 8):
                raise CheckpointRefused(f"{file.name} is cut off or no safetensors file")
            header = stream.read(length)
        listed = json.loads(header)
        entries = {name: _entry(file, 8 + length, value) for name, value in listed.items() if name != "__metadata__"}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise CheckpointRefused(f"{file.name} has no readable header: {error}") from error
    end = max((entry.start + entry.size for entry in entries.values()), default=8 + length)
    if end > status.st_size:
        raise CheckpointRefused(f"{file.name} is cut off: {status.st_size} bytes of {end}")
    digest.update(header)
    digest.update(f"{file.name} {status.st_size} {status.st_mtime_ns}".encode())
    return entries


def _entry(file: Path, base: int, value: dict[str, Any]) -> Entry:
    begin, end = (int(offset) for offset in value["data_offsets"])
    if not 0 <= begin <= end:
        raise ValueError("offsets run backwards")
    return Entry(str(value["dtype"]), tuple(int(n) for n in value["shape"]), file, base + begin, end - begin)


def load(checkpoint: Checkpoint) -> None:
    """Read the tensors into memory; the disk is waited for outside the interpreter's lock.

    Raises:
        CheckpointRefused: a tensor is cut off, of a kind the probe does not load, or not finite at its ends.
    """
    streams: dict[Path, BinaryIO] = {}
    try:
        for name, entry in sorted(checkpoint.entries.items(), key=lambda item: (item[1].file, item[1].start)):
            if entry.file not in streams:
                streams[entry.file] = entry.file.open("rb")
            checkpoint.tensors[name] = _tensor(name, entry, streams[entry.file])
    except OSError as error:
        raise CheckpointRefused(f"cannot be read: {error}") from error
    finally:
        for stream in streams.values():
            stream.close()


def _tensor(name: str, entry: Entry, stream: BinaryIO) -> Any:
    import torch

    if entry.dtype not in DTYPES:
        raise CheckpointRefused(f"{name} is {entry.dtype}, which is not loaded live")
    dtype = getattr(torch, DTYPES[entry.dtype])
    count = 1
    for length in entry.shape:
        count *= length
    if count * dtype.itemsize != entry.size:
        raise CheckpointRefused(f"{name} has {entry.size} bytes for {list(entry.shape)} of {entry.dtype}")
    if not count:
        return torch.empty(entry.shape, dtype=dtype)
    flat = torch.empty(count, dtype=dtype)
    stream.seek(entry.start)
    if stream.readinto(memoryview(flat.view(torch.uint8).numpy())) != entry.size:  # type: ignore[attr-defined]
        raise CheckpointRefused(f"{name} is cut off")
    if entry.dtype in FLOATS:
        for part in (flat[:SAMPLE], flat[-SAMPLE:]):
            if not bool(torch.isfinite(part).all()):
                raise CheckpointRefused(f"{name} holds NaN or infinity")
    return flat.view(entry.shape)
