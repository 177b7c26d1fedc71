"""Does a drafter fit into the place of the one that runs?

Everything that a CUDA graph, a KV pool or a loader has taken for granted must be the same.
"""

from __future__ import annotations

from typing import Any

from sglang_console_probe.checkpoint import FLOATS, Checkpoint, CheckpointRefused

SAME = (
    "architectures",
    "hidden_size",
    "target_hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "q_lora_rank",
    "kv_lora_rank",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "v_head_dim",
    "intermediate_size",
    "hidden_act",
    "rms_norm_eps",
    "vocab_size",
    "draft_vocab_size",
    "tie_word_embeddings",
    "num_aux_hidden_states",
    "fc_norm",
    "use_aux_norm",
    "norm_before_fc",
    "norm_output",
    "bias",
    "attention_bias",
    "mlp_bias",
)
"""Keys of config.json that decide shapes or arithmetic (sglang/srt/models/llama_eagle3.py, kimi_k25_eagle3.py)."""
DEFAULTS = {
    "tie_word_embeddings": False,
    "fc_norm": False,
    "use_aux_norm": False,
    "norm_before_fc": False,
    "norm_output": False,
    "bias": False,
    "attention_bias": False,
    "mlp_bias": False,
}
"""What an absent key means, where that is the same as one that is written out."""
EAGLE_CONFIG = {"eagle_aux_hidden_state_layer_ids": None, "use_aux_hidden_state": True, "norm_before_fc": False}
LEGACY = {
    "midlayer.": "layers.0.",
    "aux_norm_low": "fc_norm.0",
    "aux_norm_mid": "fc_norm.1",
    "aux_norm_high": "fc_norm.2",
}
"""Older names of the same tensors."""
IGNORED = ("t2d",)
"""SGLang does not read these."""


def plain_name(name: str) -> str:
    """A tensor's name without the spellings that mean the same."""
    name = name.removeprefix("model.")
    for old, new in LEGACY.items():
        name = name.replace(old, new)
    return name


def check_config(running: dict[str, Any], offered: dict[str, Any]) -> None:
    """Compare two config.json.

    Raises:
        CheckpointRefused: they differ where it matters.
    """
    for key in SAME:
        was, now = running.get(key, DEFAULTS.get(key)), offered.get(key, DEFAULTS.get(key))
        _same(key, was if was is not None else DEFAULTS.get(key), now if now is not None else DEFAULTS.get(key))
    _same("rope", _rope(running), _rope(offered))
    was_eagle, now_eagle = running.get("eagle_config") or {}, offered.get("eagle_config") or {}
    for key, default in EAGLE_CONFIG.items():
        _same(f"eagle_config.{key}", was_eagle.get(key, default), now_eagle.get(key, default))
    for which, config in (("running", running), ("offered", offered)):
        if config.get("quantization_config"):
            raise CheckpointRefused(f"the {which} drafter is quantised: its weights are repacked when they are loaded")


def _same(key: str, was: Any, now: Any) -> None:
    if was != now:
        raise CheckpointRefused(f"{key}: checkpoint {now}, serving {was}")


def _rope(config: dict[str, Any]) -> tuple[Any, Any]:
    """Base and scaling, from the old keys or the new one."""
    new = dict(config.get("rope_parameters") or {})
    theta = config.get("rope_theta", new.pop("rope_theta", None))
    new.pop("rope_theta", None)
    scaling = config.get("rope_scaling") or new
    if scaling.get("rope_type", scaling.get("type", "default")) == "default":
        scaling = {}
    return theta, scaling


def check_tensors(running: Checkpoint, offered: Checkpoint, shared: set[str]) -> None:
    """Compare two headers.

    Args:
        running: the drafter that is loaded.
        offered: the one to take its place.
        shared: plain names that belong to the target: never written, so neither asked for nor compared.

    Raises:
        CheckpointRefused: a tensor is missing, unknown, or has another shape or kind.
    """
    was, now = _by_plain_name(running, shared), _by_plain_name(offered, shared)
    if missing := sorted(set(was) - set(now)):
        raise CheckpointRefused(f"tensors are missing: {_few(missing)}")
    if unknown := sorted(set(now) - set(was)):
        raise CheckpointRefused(f"tensors that the running drafter has not: {_few(unknown)}")
    for name, (shape, dtype) in sorted(now.items()):
        shape_was, dtype_was = was[name]
        if shape != shape_was:
            raise CheckpointRefused(f"{name}: checkpoint {list(shape)}, serving {list(shape_was)}")
        if (dtype in FLOATS) != (dtype_was in FLOATS) or (dtype not in FLOATS and name != "d2t" and dtype != dtype_was):
            raise CheckpointRefused(f"{name}: checkpoint {dtype}, serving {dtype_was}")


def _by_plain_name(checkpoint: Checkpoint, shared: set[str]) -> dict[str, tuple[tuple[int, ...], str]]:
    found = {}
    for name, entry in checkpoint.entries.items():
        plain = plain_name(name)
        if plain not in shared and plain not in IGNORED:
            found[plain] = (entry.shape, entry.dtype)
    return found


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def check_map(d2t: Any, hot_ids: Any, vocabulary: int) -> None:
    """The map from the drafter's vocabulary to the target's: ``target id = draft id + d2t[draft id]``.

    Args:
        d2t: of the checkpoint, ``None`` when it has none.
        hot_ids: target ids that the engine uses now, ``None`` when it maps nothing.
        vocabulary: the target's size.

    Raises:
        CheckpointRefused: it cannot take the place of the present one.
    """
    import torch

    if (d2t is None) != (hot_ids is None):
        with_map, without = ("running", "offered") if d2t is None else ("offered", "running")
        raise CheckpointRefused(f"the {with_map} drafter has a token map (d2t), the {without} one has none")
    if d2t is None:
        return
    if d2t.is_floating_point() or d2t.dim() != 1:
        raise CheckpointRefused("d2t is no list of whole numbers")
    if len(d2t) != len(hot_ids):
        raise CheckpointRefused(f"d2t has {len(d2t)} entries, serving {len(hot_ids)}")
    ids = d2t.to(torch.int64) + torch.arange(len(d2t))
    if not len(ids) or int(ids.min()) < 0 or int(ids.max()) >= vocabulary:
        raise CheckpointRefused(f"d2t points outside the target's {vocabulary} tokens")
    if not bool((ids[1:] > ids[:-1]).all()):
        raise CheckpointRefused(
            "d2t is not strictly increasing: two draft tokens would stand for the same target token"
        )
