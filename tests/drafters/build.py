"""Makes checkpoint folders for tests: SpecForge's tiny geometry by default, real geometry as sparse files."""

from __future__ import annotations

import copy
import json
import struct
from pathlib import Path
from typing import Any

BYTES = {
    "BF16": 2,
    "F16": 2,
    "F32": 4,
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "BOOL": 1,
    "U8": 1,
    "U16": 2,
    "U32": 4,
    "U64": 8,
    "F8_E4M3": 1,
    "F4": 0.5,
}
Tensors = dict[str, tuple[str, list[int]]]

TINY: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "num_hidden_layers": 1, "vocab_size": 256,
    "draft_vocab_size": 64, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "rope_scaling": None,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 3, 5], "use_aux_hidden_state": True},
}  # fmt: skip
TARGET: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "vocab_size": 256, "num_hidden_layers": 8,
    "max_position_embeddings": 4096, "torch_dtype": "bfloat16", "_name_or_path": "org/Tiny-1",
}  # fmt: skip
KIMI: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"], "model_type": "kimi_k2", "hidden_size": 7168, "intermediate_size": 18432,
    "num_attention_heads": 64, "num_key_value_heads": 64, "head_dim": 128, "num_hidden_layers": 1, "vocab_size": 163840,
    "draft_vocab_size": 32000, "max_position_embeddings": 131072, "rms_norm_eps": 1e-6, "rope_theta": 1000000, "rope_scaling": None,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 30, 58], "use_aux_hidden_state": True},
}  # fmt: skip
KIMI_TARGET: dict[str, Any] = {
    "architectures": ["KimiK25ForConditionalGeneration"], "model_type": "kimi_k25", "_name_or_path": "moonshotai/Kimi-K2.5",
    "text_config": {"model_type": "kimi_k2", "hidden_size": 7168, "vocab_size": 163840, "num_hidden_layers": 61,
                    "max_position_embeddings": 131072, "torch_dtype": "bfloat16"},
    "vision_config": {"hidden_size": 1152},
}  # fmt: skip
MLA: dict[str, Any] = TINY | {
    "architectures": ["Eagle3DeepseekV2ForCausalLM"], "model_type": "kimi_k2", "q_lora_rank": 8, "kv_lora_rank": 16,
    "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
}  # fmt: skip


def config(base: dict[str, Any] = TINY, **changes: Any) -> dict[str, Any]:
    """A copy with changes; ``...`` removes a key."""
    out = copy.deepcopy(base) | changes
    return {key: value for key, value in out.items() if value is not ...}


def tensors_of(cfg: dict[str, Any], *, prefix: str = "midlayer", mask: bool = True) -> Tensors:
    """The tensors a trainer writes for a flat config, independent of the product's own table."""
    hidden, inter = cfg["hidden_size"], cfg["intermediate_size"]
    states = cfg.get("target_hidden_size") or hidden
    aux = len(cfg.get("eagle_config", {}).get("eagle_aux_hidden_state_layer_ids", [1, 2, 3]))
    out: Tensors = {"fc.weight": ("BF16", [hidden, states * aux]), "norm.weight": ("BF16", [hidden])}
    heads, kv, dim = cfg["num_attention_heads"], cfg["num_key_value_heads"], cfg["head_dim"]
    if "Deepseek" in cfg["architectures"][0]:
        qr, kvr, rope = cfg["q_lora_rank"] or 8, cfg["kv_lora_rank"], cfg["qk_rope_head_dim"]
        nope, value = cfg["qk_nope_head_dim"], cfg["v_head_dim"]
        attention = {
            "q_a_proj": [qr, 2 * hidden], "kv_a_proj_with_mqa": [kvr + rope, 2 * hidden], "q_a_layernorm": [qr],
            "kv_a_layernorm": [kvr], "q_b_proj": [heads * (nope + rope), qr], "kv_b_proj": [heads * (nope + value), kvr],
            "o_proj": [hidden, heads * value],
        }  # fmt: skip
    else:
        attention = {"q_proj": [heads * dim, 2 * hidden], "k_proj": [kv * dim, 2 * hidden], "v_proj": [kv * dim, 2 * hidden],
                     "o_proj": [hidden, heads * dim]}  # fmt: skip
    out |= {f"{prefix}.self_attn.{name}.weight": ("BF16", shape) for name, shape in attention.items()}
    mlp = {"gate_proj": [inter, hidden], "up_proj": [inter, hidden], "down_proj": [hidden, inter]}
    out |= {f"{prefix}.mlp.{name}.weight": ("BF16", shape) for name, shape in mlp.items()}
    for name in ("input_layernorm", "hidden_norm", "post_attention_layernorm"):
        out[f"{prefix}.{name}.weight"] = ("BF16", [hidden])
    vocab, draft = cfg["vocab_size"], cfg.get("draft_vocab_size")
    if draft is not None and not cfg.get("tie_word_embeddings"):
        out["lm_head.weight"] = ("BF16", [draft, hidden])
        if draft < vocab:
            out["d2t"] = ("I64", [draft])
            if mask:
                out["t2d"] = ("BOOL", [vocab])
    return out


def size_of(dtype: str, shape: list[int]) -> int:
    count = 1
    for side in shape:
        count *= side
    return int(count * BYTES[dtype])


def header_bytes(tensors: Tensors, metadata: dict[str, str] | None = None) -> tuple[bytes, int, dict[str, int]]:
    """The length word and JSON, the size of the data, and where each tensor begins in it."""
    entries: dict[str, Any] = {"__metadata__": metadata or {"format": "pt"}}
    at, begins = 0, {}
    for name, (dtype, shape) in tensors.items():
        end = at + size_of(dtype, shape)
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}
        begins[name], at = at, end
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text, at, begins


def write_weights(path: Path, tensors: Tensors, data: dict[str, bytes] | None = None) -> None:
    """A safetensors file, its data zero (a hole on disk) but for what ``data`` gives."""
    head, size, begins = header_bytes(tensors)
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + size)
        for name, content in (data or {}).items():
            file.seek(len(head) + begins[name])
            file.write(content)


def vocabulary(draft: int, vocab: int, step: int = 2) -> dict[str, bytes]:
    """d2t and t2d that agree: draft token i is target token step * i, while that fits."""
    ids = [min(step * i, vocab - draft + i) for i in range(draft)]
    mask = bytearray(vocab)
    for token in ids:
        mask[token] = 1
    return {"d2t": struct.pack(f"<{draft}q", *(token - i for i, token in enumerate(ids))), "t2d": bytes(mask)}


def folder(
    path: Path, cfg: dict[str, Any] | None = None, *, tensors: Tensors | None = None, data: dict[str, bytes] | None = None,
    base_model: str = "", name: str = "model.safetensors",
) -> Path:  # fmt: skip
    """A drafter folder that is right unless told otherwise."""
    cfg = config() if cfg is None else cfg
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(cfg))
    tensors = tensors_of(cfg) if tensors is None else tensors
    if data is None and "d2t" in tensors and tensors["d2t"][0] == "I64":
        both = vocabulary(tensors["d2t"][1][0], cfg.get("vocab_size") or 256)
        data = {key: value for key, value in both.items() if key in tensors}
        if "t2d" in data and len(data["t2d"]) != size_of(*tensors["t2d"]):
            del data["t2d"]
    write_weights(path / name, tensors, data)
    if base_model:
        (path / "README.md").write_text(f"---\nlicense: mit\nbase_model: {base_model}\n---\n# A drafter\n")
    return path


def target(path: Path, cfg: dict[str, Any] | None = None) -> Path:
    """A target folder: its config is all that is read."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(TARGET if cfg is None else cfg))
    return path


def without(tensors: Tensors, *parts: str) -> Tensors:
    """Tensors less those whose name holds one of the parts."""
    return {name: value for name, value in tensors.items() if not any(part in name for part in parts)}
