"""A checksum of weights, made where they lie, in integer arithmetic: exact, and the same on every kind of device.

Each tensor's bits are read as whole numbers; their sum, and their sum weighted by place, both modulo 2**64, go into a
digest with name, shape and type. It finds what a swap can get wrong (a tensor not loaded, half loaded, or another
one's); it is no defence against a forger.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

CHUNK = 1 << 22
"""Elements at a time: bounds the memory that the arithmetic takes."""
PLACES = 65521
"""Weights run from 1 to this prime."""


def checksum(tensors: Mapping[str, Any]) -> str:
    """Sixteen hexadecimal digits over all tensors."""
    digest = hashlib.sha256()
    # all sums are launched before the first is read: one wait for the device
    sums = {name: _sums(tensor) for name, tensor in sorted(tensors.items())}
    for name, pair in sums.items():
        tensor = tensors[name]
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} {pair.tolist()}".encode())
    return digest.hexdigest()[:16]


def _sums(tensor: Any) -> Any:
    import torch

    words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    flat = tensor.detach().contiguous().view(-1).view(words[tensor.element_size()])
    total = torch.zeros(2, dtype=torch.int64, device=flat.device)
    for start in range(0, flat.numel(), CHUNK):
        part = flat[start : start + CHUNK].to(torch.int64)
        weight = (torch.arange(start, start + part.numel(), device=flat.device) % PLACES) + 1
        total[0] += part.sum()
        total[1] += (part * weight).sum()
    return total
