"""What a config.json says, for a drafter and for its target, in one shape whatever the format.

Only facts are read here; what they mean for serving is judged in :mod:`console.drafters.checks`. Which key counts is decided
by SGLang's two loaders (``models/llama_eagle3.py`` and ``models/kimi_k25_eagle3.py`` of 0.5.23).
"""

from __future__ import annotations

import enum
import json
import math
from typing import Any

import msgspec

from console.drafters.header import UnreadableError

CONFIG_LIMIT_BYTES = 1 << 20
LLAMA_CLASS = "LlamaForCausalLMEagle3"
MLA_CLASS = "Eagle3DeepseekV2ForCausalLM"
SPECULATORS_CLASSES = ("Eagle3DraftModel", "Eagle3Speculator")
MAX_DIMENSION = 1 << 40

Json = dict[str, Any]


class Kind(enum.StrEnum):
    """What a checkpoint is, as its config tells."""

    LLAMA = "EAGLE-3 (Llama)"
    MLA = "EAGLE-3 (MLA)"
    SPECULATORS = "EAGLE-3 (speculators)"
    MISNAMED = "EAGLE-3 under another class name"
    EAGLE = "EAGLE-1/2"
    DFLASH = "DFlash"
    DSPARK = "DSpark"
    MTP = "MTP"
    OTHER = "no EAGLE-3 drafter"

    @property
    def is_eagle3(self) -> bool:
        """Does the EAGLE-3 rule set apply?"""
        return self in {Kind.LLAMA, Kind.MLA, Kind.SPECULATORS, Kind.MISNAMED}


class DrafterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Geometry and flags of a drafter; ``None`` where the config is silent."""

    kind: Kind
    architecture: str = ""
    model_type: str = ""
    hidden_size: int | None = None
    target_hidden_size: int | None = None
    target_hidden_null: bool = False
    """``"target_hidden_size": null``: the Llama loader multiplies with it and fails."""
    intermediate_size: int | None = None
    vocab_size: int | None = None
    draft_vocab_size: int | None = None
    head_key: bool = False
    """The config has the key draft_vocab_size, with whatever value."""
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    layers: int | None = None
    max_position: int | None = None
    rope_theta: float | None = None
    rope_scaling: Json | None = None
    tie: bool = False
    dtype: str = ""
    quantization: str = ""
    aux_ids: tuple[int, ...] = ()
    aux_ids_at_top: bool = False
    """Ids stand at the top level, where SGLang's target does not look."""
    n_aux_declared: int | None = None
    fc_norm: bool = False
    norm_before_fc: bool = False
    norm_output: bool = False
    fc_bias: bool = False
    q_lora_rank: int | None = None
    kv_lora_rank: int | None = None
    qk_nope_head_dim: int | None = None
    qk_rope_head_dim: int | None = None
    v_head_dim: int | None = None
    verifier: str = ""
    """The target named inside the config (speculators)."""
    problems: tuple[str, ...] = ()
    """Keys whose value cannot be what it should be."""

    @property
    def fc_input(self) -> int | None:
        """Width of one auxiliary hidden state."""
        return self.target_hidden_size or self.hidden_size

    @property
    def n_aux(self) -> int:
        """How many hidden states of the target are concatenated."""
        return self.n_aux_declared or len(self.aux_ids) or 3

    @property
    def head_vocab(self) -> int | None:
        """Rows of the drafter's own head."""
        return self.draft_vocab_size if self.draft_vocab_size is not None else self.vocab_size

    @property
    def is_reduced(self) -> bool:
        """It drafts from a part of the vocabulary."""
        return bool(self.draft_vocab_size and self.vocab_size and self.draft_vocab_size < self.vocab_size)

    @property
    def shares_head(self) -> bool:
        """The head is borrowed from the target or tied to the embedding, so the file needs none."""
        return self.tie or self.draft_vocab_size is None

    @property
    def own_embedding(self) -> bool:
        """The target's embedding does not fit, so the file must bring one."""
        return self.target_hidden_size is not None and self.target_hidden_size != self.hidden_size


class TargetFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a drafter has to fit."""

    origin: str
    """Where the facts come from, for people."""
    name: str = ""
    architecture: str = ""
    model_type: str = ""
    hidden_size: int | None = None
    vocab_size: int | None = None
    layers: int | None = None
    max_position: int | None = None
    dtype: str = ""
    quantization: str = ""
    multimodal: bool = False
    tp: int | None = None
    context_len: int | None = None
    algorithm: str = ""
    """The running server's --speculative-algorithm."""
    rejection_sampling: bool = False
    version: str = ""
    problem: str = ""


def parse_config(data: bytes) -> Json:
    """The config as a JSON object.

    Raises:
        UnreadableError: an LFS pointer, HTML, too large, or no JSON object.
    """
    if data.startswith(b"version https://git-lfs"):
        raise UnreadableError("lfs-pointer", "config.json is a Git LFS pointer, not the content")
    if data.lstrip()[:1] == b"<":
        raise UnreadableError("html", "config.json is an HTML page")
    if len(data) > CONFIG_LIMIT_BYTES:
        raise UnreadableError("bad-config", "config.json is larger than 1 MB")
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        config = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        config = _python_json(data)
        if config is None:
            text = " ".join(str(error).split())[:120]
            raise UnreadableError("bad-config", f"config.json is no JSON: {text}") from error
    if not isinstance(config, dict):
        raise UnreadableError("bad-config", "config.json holds no JSON object")
    return config


def _python_json(data: bytes) -> object:
    """What Python's own reader makes of it, as transformers does: it takes NaN and Infinity; ``None`` when it cannot either."""
    if b"NaN" not in data and b"Infinity" not in data:
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


class _Reader:
    """Reads typed values and collects what is malformed instead of failing at the first."""

    def __init__(self, config: Json, where: str = "") -> None:
        self.config = config
        self.where = where
        self.problems: list[str] = []

    def _bad(self, key: str, wanted: str) -> None:
        value = self.config.get(key)
        self.problems.append(f"{self.where}{key} is {str(value)[:40]!r}, {wanted} is needed")

    def integer(self, *keys: str) -> int | None:
        """The first of ``keys`` that is set, as a positive integer."""
        for key in keys:
            value = self.config.get(key)
            if value is None:
                continue
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < MAX_DIMENSION:
                self._bad(key, "a positive whole number")
                continue
            return value
        return None

    def real(self, key: str) -> float | None:
        value = self.config.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self._bad(key, "a number")
            return None
        return float(value)

    def text(self, *keys: str) -> str:
        for key in keys:
            value = self.config.get(key)
            if isinstance(value, str):
                return value[:300]
        return ""

    def flag(self, key: str) -> bool:
        return bool(self.config.get(key))

    def section(self, key: str) -> Json:
        value = self.config.get(key)
        if value is not None and not isinstance(value, dict):
            self._bad(key, "an object")
        return value if isinstance(value, dict) else {}

    def ids(self, key: str) -> tuple[int, ...]:
        value = self.config.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not 0 < len(value) <= 64 or not all(type(x) is int and x >= 0 for x in value):
            self._bad(key, "a list of layer numbers")
            return ()
        return tuple(value)


def architecture_of(config: Json) -> str:
    """``architectures[0]``, the class SGLang builds."""
    classes = config.get("architectures")
    if isinstance(classes, list) and classes and isinstance(classes[0], str):
        return classes[0][:200]
    return ""


def kind_of(config: Json, tensor_names: frozenset[str]) -> Kind:
    """What the checkpoint is; the class name decides, tensor names correct it."""
    name = architecture_of(config)
    label = f"{name} {config.get('speculators_model_type', '')}".lower()
    eagle3_names = any(item.removeprefix("model.").startswith("midlayer.") for item in tensor_names) or (
        {"d2t", "fc.weight"} <= tensor_names
    )
    eagle_names = {"fc.weight", "layers.0.self_attn.q_proj.weight"} <= tensor_names
    rules = (
        (Kind.LLAMA, name == LLAMA_CLASS),
        (Kind.MLA, name == MLA_CLASS),
        (Kind.SPECULATORS, name in SPECULATORS_CLASSES or label.endswith(" eagle3")),
        (Kind.DFLASH, "dflash" in label or "dflash_config" in config),
        (Kind.DSPARK, "dspark" in label or any(key.startswith("dspark_") for key in config)),
        (Kind.MISNAMED, eagle3_names or "eagle3" in label or {"draft_vocab_size", "eagle_config"} <= config.keys()),
        (Kind.MTP, "mtp" in label or "nextn" in label),
        (Kind.EAGLE, "eagle" in label or eagle_names),
    )
    return next((kind for kind, applies in rules if applies), Kind.OTHER)


def _rope(reader: _Reader) -> tuple[float | None, Json | None]:
    """rope_theta and scaling from the old keys or from transformers 5's rope_parameters."""
    parameters = reader.section("rope_parameters")
    theta = reader.real("rope_theta")
    if theta is None and parameters:
        theta = _Reader(parameters, "rope_parameters.").real("rope_theta")
    scaling = reader.section("rope_scaling") or {k: v for k, v in parameters.items() if k != "rope_theta"}
    if scaling.get("rope_type", scaling.get("type")) == "default" and "mrope_section" not in scaling:
        scaling = {}
    return theta, scaling or None


def _quantization(config: Json) -> str:
    section = config.get("quantization_config") or config.get("compression_config")
    if not isinstance(section, dict):
        return ""
    return str(section.get("quant_method") or section.get("quant_algo") or section.get("format") or "declared")[:60]


def drafter_facts(config: Json, tensor_names: frozenset[str] = frozenset()) -> DrafterFacts:
    """Read a drafter's config. Never raises; what is malformed stands in ``problems``."""
    kind = kind_of(config, tensor_names)
    top = _Reader(config)
    nested = config.get("transformer_layer_config")
    body = _Reader(nested, "transformer_layer_config.") if isinstance(nested, dict) else top
    eagle = _Reader(top.section("eagle_config"), "eagle_config.")
    ids = eagle.ids("eagle_aux_hidden_state_layer_ids")
    top_ids = top.ids("eagle_aux_hidden_state_layer_ids")
    verifier = _Reader(top.section("speculators_config")).section("verifier")
    theta, scaling = _rope(body)
    hidden, heads = body.integer("hidden_size"), body.integer("num_attention_heads")
    head_dim = body.integer("head_dim")
    if head_dim is None and hidden and heads:
        head_dim = hidden // heads
    facts = DrafterFacts(
        kind=kind,
        architecture=architecture_of(config),
        model_type=top.text("model_type") or body.text("model_type"),
        hidden_size=hidden,
        target_hidden_size=top.integer("target_hidden_size"),
        target_hidden_null="target_hidden_size" in config and config["target_hidden_size"] is None,
        intermediate_size=body.integer("intermediate_size_mlp", "intermediate_size")
        if body.text("model_type") == "llama4_text"
        else body.integer("intermediate_size"),
        vocab_size=body.integer("vocab_size"),
        draft_vocab_size=top.integer("draft_vocab_size"),
        head_key="draft_vocab_size" in config,
        heads=heads,
        kv_heads=body.integer("num_key_value_heads") or heads,
        head_dim=head_dim,
        layers=body.integer("num_hidden_layers"),
        max_position=body.integer("max_position_embeddings"),
        rope_theta=theta,
        rope_scaling=scaling,
        tie=top.flag("tie_word_embeddings"),
        dtype=top.text("torch_dtype", "dtype") or body.text("torch_dtype", "dtype"),
        quantization=_quantization(config),
        aux_ids=ids or top_ids,
        aux_ids_at_top=bool(top_ids) and not ids,
        n_aux_declared=top.integer("num_aux_hidden_states"),
        fc_norm=top.flag("fc_norm") or top.flag("use_aux_norm"),
        norm_before_fc=bool(eagle.config.get("norm_before_fc", config.get("norm_before_fc", False))),
        norm_output=top.flag("norm_output"),
        fc_bias=top.flag("bias"),
        q_lora_rank=body.integer("q_lora_rank"),
        kv_lora_rank=body.integer("kv_lora_rank"),
        qk_nope_head_dim=body.integer("qk_nope_head_dim"),
        qk_rope_head_dim=body.integer("qk_rope_head_dim"),
        v_head_dim=body.integer("v_head_dim"),
        verifier=str(verifier.get("name_or_path") or "")[:200],
    )
    readers = (top, eagle) if body is top else (top, body, eagle)
    return msgspec.structs.replace(facts, problems=tuple(text for reader in readers for text in reader.problems))


def target_facts(config: Json, *, origin: str, name: str = "") -> TargetFacts:
    """Read a target's config, descending into ``text_config`` of a multimodal one."""
    text = config.get("text_config")
    multimodal = isinstance(text, dict)
    body = _Reader(text if isinstance(text, dict) else config, "text_config." if multimodal else "")
    top = _Reader(config)
    return TargetFacts(
        origin=origin,
        name=name or top.text("_name_or_path"),
        architecture=architecture_of(config) or architecture_of(body.config),
        model_type=body.text("model_type") or top.text("model_type"),
        hidden_size=body.integer("hidden_size"),
        vocab_size=body.integer("vocab_size") or top.integer("vocab_size"),
        layers=body.integer("num_hidden_layers"),
        max_position=body.integer("max_position_embeddings"),
        dtype=body.text("torch_dtype", "dtype") or top.text("torch_dtype", "dtype"),
        quantization=_quantization(config) or _quantization(body.config),
        multimodal=multimodal or "vision_config" in config,
    )
