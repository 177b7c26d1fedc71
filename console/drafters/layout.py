"""Which tensors SGLang's loaders expect for a config, by canonical name and shape.

Canonical names are SGLang's own after its renames: ``midlayer`` is ``layers.0``, a leading ``model.`` is dropped, the legacy
``aux_norm_low/mid/high`` are ``fc_norm.0/1/2``. Sizes: H hidden, T target hidden, A auxiliary states, V vocabulary, Vd draft
vocabulary, D head size. Source: ``models/llama_eagle3.py`` and ``models/kimi_k25_eagle3.py`` of SGLang 0.5.23.
"""

from __future__ import annotations

from collections.abc import Mapping

from console.drafters.facts import DrafterFacts, Kind

Shape = tuple[int, ...]

RENAMES = (
    ("midlayer", "layers.0"),
    ("aux_norm_low", "fc_norm.0"),
    ("aux_norm_mid", "fc_norm.1"),
    ("aux_norm_high", "fc_norm.2"),
)
FUSED = {
    "self_attn.qkv_proj": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "mlp.gate_up_proj": ("mlp.gate_proj", "mlp.up_proj"),
    "self_attn.fused_qkv_a_proj_with_mqa": ("self_attn.q_a_proj", "self_attn.kv_a_proj_with_mqa"),
}
"""Checkpoints written by an engine may hold these fused, the parts one below the other; the loader takes them as they are."""

GROUPS = {"C4": ("fc.",), "C6": ("lm_head",), "C9": (".self_attn.",), "C10": (".mlp.",), "C13": ("embed_tokens",)}
"""Which check judges the shape of a tensor; everything else is C11."""


def canonical(name: str) -> str:
    """SGLang's name of a tensor."""
    for old, new in RENAMES:
        name = name.replace(old, new)
    return name if name.startswith("model.lm_head") else name.removeprefix("model.")


def is_skipped(name: str, kind: Kind) -> bool:
    """Whether the MLA loader drops a name on disk that the Llama one takes: it puts ``model.`` in front itself."""
    if kind is not Kind.MLA or name.endswith((".d2t", ".t2d")):
        return False
    return name.startswith("model.") or "aux_norm_" in name


def check_of(name: str) -> str:
    """The check id that judges this tensor's shape."""
    for check, marks in GROUPS.items():
        if any(name.startswith(mark) or (mark.startswith(".") and mark in name) for mark in marks):
            return check
    return "C11"


def expected(facts: DrafterFacts) -> dict[str, Shape | None]:
    """Required tensors with their shapes; ``None`` for a shape the config cannot tell. ``d2t`` is judged apart (C7)."""
    hidden, states = facts.hidden_size, facts.fc_input
    required: dict[str, Shape | None] = {
        "fc.weight": _shape(hidden, states and states * facts.n_aux),
        "norm.weight": _shape(hidden),
    }
    if facts.fc_bias:
        required["fc.bias"] = _shape(hidden)
    for layer in range(min(facts.layers or 1, 64)):
        attention = _mla(facts) if facts.kind is Kind.MLA else _attention(facts, first=layer == 0)
        parts = {
            **attention,
            "mlp.gate_proj": _shape(facts.intermediate_size, hidden),
            "mlp.up_proj": _shape(facts.intermediate_size, hidden),
            "mlp.down_proj": _shape(hidden, facts.intermediate_size),
            "input_layernorm": _shape(hidden),
            "hidden_norm": _shape(hidden),
            "post_attention_layernorm": _shape(hidden),
        }
        if layer > 0:
            del parts["input_layernorm"]  # only the first layer normalises the embedding
        required |= {f"layers.{layer}.{part}.weight": shape for part, shape in parts.items()}
    if not facts.shares_head:
        required["lm_head.weight"] = _shape(facts.draft_vocab_size, hidden)
    if facts.own_embedding:
        required["embed_tokens.weight"] = _shape(facts.vocab_size, hidden)
    if facts.fc_norm:
        required |= {f"fc_norm.{index}.weight": _shape(states) for index in range(facts.n_aux)}
    if facts.norm_before_fc and facts.kind is not Kind.MLA:
        required["input_norm.weight"] = _shape(states and states * facts.n_aux)
    return required


def fused(required: Mapping[str, Shape | None]) -> dict[str, Shape | None]:
    """The fused tensors that may stand in place of required ones: as many rows as their parts together."""
    found: dict[str, Shape | None] = {}
    for whole, parts in FUSED.items():
        for name in required:
            if f".{parts[0]}." not in f".{name}":
                continue
            shapes = [required.get(name.replace(parts[0], part)) for part in parts]
            rows = [shape[0] for shape in shapes if shape]
            first = shapes[0]
            whole_shape = (sum(rows), *first[1:]) if first and len(rows) == len(parts) else None
            found[name.replace(parts[0], whole)] = whole_shape
    return found


def optional(facts: DrafterFacts) -> dict[str, Shape | None]:
    """Tensors a file may carry without being asked for."""
    return {
        "embed_tokens.weight": _shape(facts.vocab_size, facts.hidden_size),
        "lm_head.weight": _shape(facts.head_vocab, facts.hidden_size),
        "d2t": _shape(facts.head_vocab),
        "t2d": _shape(facts.vocab_size),
    }


def bytes_expected(facts: DrafterFacts) -> int | None:
    """Bytes of tensor data the config implies, with d2t (I64) and t2d (BOOL) where the vocabulary is reduced.

    ``None`` when the config leaves a size open or declares a quantisation. Kimi-K2-Instruct-eagle3: 2 382 317 568.
    """
    if facts.quantization:
        return None
    width = {"float32": 4, "float64": 8}.get(facts.dtype.removeprefix("torch."), 2)
    total = 0
    for shape in expected(facts).values():
        if shape is None:
            return None
        count = 1
        for side in shape:
            count *= side
        total += count * width
    if facts.draft_vocab_size and facts.vocab_size and facts.draft_vocab_size < facts.vocab_size:
        total += 8 * facts.draft_vocab_size + facts.vocab_size
    return total


def _attention(facts: DrafterFacts, *, first: bool) -> dict[str, Shape | None]:
    """Grouped-query attention; the first layer reads [embedding, hidden], twice as wide."""
    width = facts.hidden_size and facts.hidden_size * (2 if first else 1)
    rows = facts.heads and facts.head_dim and facts.heads * facts.head_dim
    kv_rows = facts.kv_heads and facts.head_dim and facts.kv_heads * facts.head_dim
    return {
        "self_attn.q_proj": _shape(rows, width),
        "self_attn.k_proj": _shape(kv_rows, width),
        "self_attn.v_proj": _shape(kv_rows, width),
        "self_attn.o_proj": _shape(facts.hidden_size, rows),
    }


def _mla(facts: DrafterFacts) -> dict[str, Shape | None]:
    """Multi-head latent attention of DeepSeek-V2."""
    hidden, heads, q_rank, kv_rank = facts.hidden_size, facts.heads, facts.q_lora_rank, facts.kv_lora_rank
    nope, rope, value = facts.qk_nope_head_dim, facts.qk_rope_head_dim, facts.v_head_dim
    return {
        "self_attn.q_a_proj": _shape(q_rank, hidden and 2 * hidden),
        "self_attn.kv_a_proj_with_mqa": _shape(kv_rank and rope and kv_rank + rope, hidden and 2 * hidden),
        "self_attn.q_a_layernorm": _shape(q_rank),
        "self_attn.kv_a_layernorm": _shape(kv_rank),
        "self_attn.q_b_proj": _shape(heads and nope and rope and heads * (nope + rope), q_rank),
        "self_attn.kv_b_proj": _shape(heads and nope and value and heads * (nope + value), kv_rank),
        "self_attn.o_proj": _shape(hidden, heads and value and heads * value),
    }


def _shape(*sides: int | None) -> Shape | None:
    known = tuple(side for side in sides if side)
    return known if len(known) == len(sides) else None
