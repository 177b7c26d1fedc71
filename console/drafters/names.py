"""Was it trained for this target? Judged by names, which is all there is."""

from __future__ import annotations

import re
from typing import TypedDict

QUANTISATIONS = ("fp8", "nvfp4", "fp4", "mxfp4", "int4", "int8", "awq", "gptq", "w4a16", "w8a8", "bnb", "gguf")


class Answer(TypedDict):
    """The part of a check that names can decide."""

    ok: bool | None
    message: str
    drafter: str | None
    reference: str | None


def plain(name: str) -> str:
    """The model's own name: no owner, no path, no revision, lower case."""
    name = name.rstrip("/").split("@", 1)[0]
    cached = re.search(r"models--[^/]+?--([^/]+)/snapshots", name)
    return (cached[1] if cached else name.rsplit("/", 1)[-1]).lower()


def split_quantisation(name: str) -> tuple[str, str]:
    """("kimi-k2-instruct", "fp8") of "Kimi-K2-Instruct-FP8"."""
    parts = [part for part in re.split(r"[-_ ]", name) if part]
    quantised = [part for part in parts if part in QUANTISATIONS]
    return "-".join(part for part in parts if part not in QUANTISATIONS), "-".join(quantised)


def trained_for(base_models: tuple[str, ...], target: str) -> Answer:
    """Compare the drafter's base models with the target's name."""
    if not base_models:
        return Answer(
            ok=None,
            message="the drafter does not say for which target it was trained",
            drafter=None,
            reference=target or None,
        )
    shown = ", ".join(base_models[:3])
    if not target:
        return Answer(
            ok=None, message=f"trained for {shown}; the target's name is not known", drafter=shown, reference=None
        )
    wanted = plain(target)
    names = [plain(name) for name in base_models]
    if wanted in names:
        return Answer(ok=True, message=f"trained for {shown}", drafter=shown, reference=target)
    core, quantised = split_quantisation(wanted)
    for name in names:
        other, other_quantised = split_quantisation(name)
        if other == core and other_quantised != quantised:
            text = f"trained for {shown}, another quantisation of {target}: expect low acceptance"
            return Answer(ok=False, message=text, drafter=shown, reference=target)
    if not re.search(r"\d", core) or core in {"target", "model", "checkpoint", "base"}:
        return Answer(
            ok=None, message=f"trained for {shown}; the name {target} does not tell", drafter=shown, reference=target
        )
    text = f"trained for {shown}, not for {target}: good to start a fine-tune from, expect low acceptance when served"
    return Answer(ok=False, message=text, drafter=shown, reference=target)
