"""Checkpoints for tests: safetensors files read and written byte by byte, without torch."""

from __future__ import annotations

import json
import struct
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Tensor:
    dtype: str
    shape: list[int]
    data: bytes


def zeros(shape: list[int], dtype: str = "BF16") -> Tensor:
    width = {"BF16": 2, "F32": 4, "I64": 8, "BOOL": 1, "F8_E4M3": 1}[dtype]
    count = 1
    for length in shape:
        count *= length
    return Tensor(dtype, shape, bytes(count * width))


def whole_numbers(values: list[int]) -> Tensor:
    return Tensor("I64", [len(values)], array("q", values).tobytes())


def numbers_of(tensor: Tensor) -> list[int]:
    return array("q", tensor.data).tolist()


def read(path: Path) -> dict[str, Tensor]:
    body = path.read_bytes()
    (length,) = struct.unpack("<Q", body[:8])
    found = {}
    for name, value in json.loads(body[8 : 8 + length]).items():
        if name != "__metadata__":
            start, end = value["data_offsets"]
            found[name] = Tensor(value["dtype"], value["shape"], body[8 + length + start : 8 + length + end])
    return found


def write(folder: Path, tensors: dict[str, Tensor], config: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    header, offset = {}, 0
    for name, tensor in tensors.items():
        end = offset + len(tensor.data)
        header[name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [offset, end]}
        offset = end
    head = json.dumps(header).encode()
    data = b"".join(tensor.data for tensor in tensors.values())
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + data)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def variant(source: Path, folder: Path, **changes: Tensor | None) -> Path:
    """A copy of a checkpoint with tensors exchanged, added or (``None``) left out; ``__`` stands for a dot in a name."""
    tensors = read(source / "model.safetensors")
    for name, tensor in changes.items():
        plain = name.replace("__", ".")
        if tensor is None:
            del tensors[plain]
        else:
            tensors[plain] = tensor
    return write(folder, tensors, json.loads((source / "config.json").read_text()))
