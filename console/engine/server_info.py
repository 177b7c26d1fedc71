"""``/server_info``: what the engine is. The top level keeps what it was launched with, ``internal_states`` what holds now."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from console.engine.readings import count, items, mapping, number, text
from console.engine.secrets import mask_text

COMMAND_LIMIT_CHARS = 16 * 1024


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """An engine as it describes itself; ``None`` and empty where this version does not say."""

    version: str = ""
    model: str = ""
    served_name: str = ""
    drafter: str = ""
    algorithm: str = ""
    """Upper case; empty without speculation."""
    depth_launch: int | None = None
    depth: int | None = None
    """Depth in use: follows adaptive tiers and pins."""
    topk: int | None = None
    draft_tokens: int | None = None
    """Verify width in use."""
    adaptive: bool = False
    adaptive_config: str = ""
    """Path of the file with the candidate depths, on the engine's machine."""
    tp: int | None = None
    dp: int | None = None
    attention_backend: str = ""
    attention_mode: str = ""
    graph_backend: str = ""
    """full, breakable, disabled; of the decode (verify) pass."""
    graph_max_bs: int | None = None
    max_running: int | None = None
    """Effective limit per data-parallel rank where the engine tells it."""
    max_tokens: int | None = None
    context_len: int | None = None
    accept_len: float | None = None
    """Since the last flush."""
    metrics: bool | None = None
    """Whether ``/metrics`` exists."""
    weight_version: str = ""
    architectures: tuple[str, ...] = ()
    command: str = ""
    """Launch arguments, masked; since 0.5.23."""
    status: str = ""


def version_tuple(version: str) -> tuple[int, ...]:
    """``0.5.13.post1`` as ``(0, 5, 13, 1)`` sorts after ``0.5.13``; ``()`` when it holds no number."""
    found = re.match(r"\s*v?(\d{1,9}(?:\.\d{1,9}){0,5})(?:\.?post(\d{1,9}))?", version)
    if found is None:
        return ()
    numbers = tuple(int(part) for part in found[1].split("."))
    return (*numbers, int(found[2])) if found[2] else numbers


def parse(server_info: Any, model_info: Any = None) -> EngineFacts:
    """The facts in the decoded bodies of ``/server_info`` and ``/model_info``; either may be missing or anything at all."""
    top = mapping(server_info)
    states = [state for state in (mapping(entry) for entry in items(top.get("internal_states"))) if state]
    live = states[0] if states else {}
    about = mapping(model_info)
    algorithm = text(top.get("speculative_algorithm")).upper()
    speculating = bool(algorithm) and algorithm != "NONE"
    graph = mapping(mapping(top.get("cuda_graph_config")).get("decode"))
    return EngineFacts(
        version=text(top.get("version")),
        model=text(top.get("model_path")) or text(about.get("model_path")),
        served_name=text(top.get("served_model_name")) or text(about.get("served_model_name")),
        drafter=text(top.get("speculative_draft_model_path")) if speculating else "",
        algorithm=algorithm if speculating else "",
        depth_launch=count(top.get("speculative_num_steps")) if speculating else None,
        depth=_first(live, top, "speculative_num_steps") if speculating else None,
        topk=count(top.get("speculative_eagle_topk")) if speculating else None,
        draft_tokens=_first(live, top, "speculative_num_draft_tokens") if speculating else None,
        adaptive=top.get("speculative_adaptive") is True and speculating,
        adaptive_config=text(top.get("speculative_adaptive_config")),
        tp=count(top.get("tp_size")),
        dp=count(top.get("dp_size")),
        attention_backend=_attention(top),
        attention_mode=text(top.get("speculative_attention_mode")) if speculating else "",
        graph_backend=_graph_backend(top, graph),
        graph_max_bs=count(graph.get("max_bs")) or count(top.get("cuda_graph_max_bs")),
        max_running=_first(live, top, "effective_max_running_requests_per_dp")
        or count(top.get("max_running_requests")),
        max_tokens=count(top.get("max_total_num_tokens"))
        or count(mapping(live.get("memory_usage")).get("token_capacity")),
        context_len=count(top.get("context_length")),
        accept_len=number(live.get("avg_spec_accept_length")),
        metrics=top["enable_metrics"] if isinstance(top.get("enable_metrics"), bool) else None,
        weight_version=text(about.get("weight_version")) or text(top.get("weight_version")),
        architectures=tuple(name for name in items(about.get("architectures")) if isinstance(name, str)),
        command=mask_text(text(top.get("launch_command"))[:COMMAND_LIMIT_CHARS]),
        status=text(top.get("status")),
    )


def _first(live: dict[str, Any], top: dict[str, Any], key: str) -> int | None:
    found = count(live.get(key))
    return found if found is not None else count(top.get(key))


def _attention(top: dict[str, Any]) -> str:
    """One name, or prefill/decode where they differ."""
    both = text(top.get("attention_backend"))
    prefill = text(top.get("prefill_attention_backend")) or both
    decode = text(top.get("decode_attention_backend")) or both
    return prefill if prefill == decode else f"{prefill or '-'}/{decode or '-'}"


def _graph_backend(top: dict[str, Any], graph: dict[str, Any]) -> str:
    if backend := text(graph.get("backend")):
        return backend
    if top.get("disable_cuda_graph") is True:
        return "disabled"
    return "full" if top.get("disable_cuda_graph") is False and "cuda_graph_max_bs" in top else ""
