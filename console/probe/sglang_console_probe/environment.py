"""The environment a worker really has.

SGLang's process titles wipe ``/proc/PID/environ``, so nobody outside can read it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

PREFIXES = ("NCCL_", "CUDA_", "SGLANG_")
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
USERINFO = re.compile(r"(?<=://)[^/@\s]+(?=@)")
MASK = "***"
VALUE_LIMIT = 512
"""Characters kept of a value."""


def own_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables that decide speed, masked, without control characters."""
    return {name: _shown(name, value) for name, value in sorted(environ.items()) if name.startswith(PREFIXES)}


def _shown(name: str, value: str) -> str:
    if SECRET.search(name):
        return MASK
    clean = "".join(character if character.isprintable() else "?" for character in value)
    return USERINFO.sub(MASK, clean)[:VALUE_LIMIT]
