"""Tensors of quantised checkpoints: which names accompany a weight, and whether a packed one holds what is wanted.

Formats: Quark and compressed-tensors (``weight_scale``, ``weight_packed``), DeepSeek's block fp8 (``weight_scale_inv``),
ModelOpt (``weight_scale_2``, ``input_scale``), AWQ and GPTQ (``qweight``, ``qzeros``, ``scales``, ``g_idx``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from math import prod

from console.drafters.header import Tensor
from console.drafters.layout import Shape

PACKED_NAMES = (".qweight", ".weight_packed")
COMPANIONS = re.compile(
    r"\.(weight_scale(_inv|_2)?|weight_global_scale|weight_zero_point|weight_shape|weight_g_idx|input_scale|input_global_scale"
    r"|output_scale|[kqv]_scale|qzeros|scales|g_idx)$"
)
PACKED_DTYPES = ("I32", "U8", "I64")
PACKED_BITS = (2, 3, 4, 6, 8)
"""Bits of one weight in the formats that pack several into an integer."""


def carried(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors by the plain name of what they hold: ``x.qweight`` counts as ``x.weight``."""
    found = dict(tensors)
    for name, tensor in tensors.items():
        for suffix in PACKED_NAMES:
            if name.endswith(suffix):
                found.setdefault(f"{name.removesuffix(suffix)}.weight", tensor)
    return found


def holds(tensor: Tensor, shape: Shape, *, quantised: bool) -> bool:
    """Whether a tensor is of a shape, or packs exactly so many values."""
    if tensor.shape == shape:
        return True
    if not quantised or tensor.dtype not in PACKED_DTYPES or len(tensor.shape) != len(shape):
        return False
    return any(tensor.bits == prod(shape) * bits for bits in PACKED_BITS)


def accompanies(name: str, known: Collection[str]) -> bool:
    """Whether a name is the scale or zero point of a known weight, or its packed form."""
    for suffix in PACKED_NAMES:
        if name.endswith(suffix):
            return f"{name.removesuffix(suffix)}.weight" in known
    found = COMPANIONS.search(name)
    if found is None:
        return False
    owner = name[: found.start()]
    return f"{owner}.weight" in known or any(item.startswith(f"{owner}.") for item in known)
