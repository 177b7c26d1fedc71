"""What a baseline was measured on: a short fingerprint that changes when a comparison would no longer be fair."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.engine.secrets import is_secret_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from console import rig

KEY_ARGUMENTS = (
    # Arguments of SGLang (as /server_info names them) that change decode speed without speculation.
    "model_path",
    "revision",
    "dtype",
    "quantization",
    "kv_cache_dtype",
    "tp_size",
    "pp_size",
    "dp_size",
    "ep_size",
    "attention_backend",
    "decode_attention_backend",
    "sampling_backend",
    "moe_runner_backend",
    "page_size",
    "disable_cuda_graph",
    "disable_decode_cuda_graph",
    "disable_overlap_schedule",
    "disable_custom_all_reduce",
    "enable_torch_compile",
    "enable_mscclpp",
    "enable_nccl_nvls",
)
KEY_ENVIRONMENT = ("NCCL_", "CUDA_", "SGLANG_", "TORCH_", "VLLM_")
"""Prefixes of variables that change speed."""
OTHER_ENVIRONMENT = ("SGLANG_CONSOLE_", "SGLANG_RUN_ID", "SGLANG_PLUGINS", "CUDA_VISIBLE_DEVICES", "CUDA_HOME")
"""Exceptions: the console's own, or without effect on speed."""
DIGITS = 12


def parts(
    *,
    driver: str,
    gpus: Iterable[rig.Gpu],
    sglang: str,
    arguments: Mapping[str, Any],
    environment: Mapping[str, str],
) -> dict[str, str]:
    """What goes into the fingerprint, by name: comparing two of them says what has changed."""
    names: dict[str, int] = {}
    for gpu in gpus:
        names[gpu.name] = names.get(gpu.name, 0) + 1
    found = {
        "driver": driver,
        "GPUs": ", ".join(f"{count} x {name}" for name, count in sorted(names.items())),
        "SGLang": sglang,
    }
    for name in KEY_ARGUMENTS:
        if (value := arguments.get(name)) not in (None, ""):
            found[name] = str(value)
    for name in sorted(environment):
        if name.startswith(KEY_ENVIRONMENT) and not name.startswith(OTHER_ENVIRONMENT):
            found[name] = environment[name]
    return {name: value for name, value in found.items() if value}


def fingerprint(found: Mapping[str, str]) -> str:
    """Twelve hexadecimal digits over :func:`parts`."""
    text = "\n".join(f"{name}={value}" for name, value in sorted(found.items()))
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:DIGITS]


def is_stale(baseline: str, now: str) -> bool:
    """Whether a baseline was measured on something else; without one of the two nothing can be said."""
    return bool(baseline) and bool(now) and baseline != now


def launcher_environment(pid: int) -> dict[str, str]:
    """The environment the engine's launcher was started with, speed-relevant variables only.

    Workers overwrite theirs with their process title, so only the launcher's can be read here.
    """
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    found = {}
    for entry in raw.decode(errors="replace").split("\0"):
        name, equals, value = entry.partition("=")
        if equals and name.startswith(KEY_ENVIRONMENT) and not is_secret_name(name):
            found[name] = value
    return found
