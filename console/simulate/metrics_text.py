"""The Prometheus text of the simulated engine: SGLang's names, labels and stickiness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from console.simulate.startup import GRAPH_GB, KV_GB, WEIGHT_GB

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from console.simulate.engine import Engine

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"
Sample = tuple[str, float]
"""Labels as text, value."""


def exposition(engine: Engine, startup_s: dict[str, float]) -> str:
    """Everything ``GET /metrics`` answers."""
    lines: list[str] = []
    for name, kind, help_text, samples in _families(engine, startup_s):
        lines.append(f"# HELP sglang:{name} {help_text}")
        lines.append(f"# TYPE sglang:{name} {kind}")
        lines.extend(f"sglang:{name}{{{labels}}} {_number(value)}" for labels, value in samples)
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return "NaN" if value != value else repr(float(value))  # noqa: PLR0124 - NaN is the only value unlike itself


def _labels(engine: Engine, rank: int = 0, **more: str) -> str:
    own = {
        **more,
        "engine_type": "unified",
        "model_name": engine.options.served_name,
        "moe_ep_rank": "0",
        "pp_rank": "0",
        "tp_rank": str(rank),
    }
    return ",".join(f'{key}="{_escape(value)}"' for key, value in sorted(own.items()))


def _front(engine: Engine, **more: str) -> str:
    own = {**more, "engine_type": "unified", "model_name": engine.options.served_name}
    return ",".join(f'{key}="{_escape(value)}"' for key, value in sorted(own.items()))


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


Family = tuple[str, Literal["gauge", "counter"], str, list[Sample]]


def _families(engine: Engine, startup_s: dict[str, float]) -> Iterator[Family]:
    yield from _rank_zero(engine)
    yield from _speculation(engine)
    yield from _every_rank(engine)
    yield from _front_end(engine, startup_s)


def _gauge(engine: Engine, name: str, help_text: str, value: float) -> Family:
    return name, "gauge", help_text, [(_labels(engine), value)]


def _rank_zero(engine: Engine) -> Iterator[Family]:
    """Gauges that only rank 0 sets."""
    gauges = engine.gauges
    used = engine.used_tokens
    yield _gauge(engine, "num_running_reqs", "The number of running requests.", len(engine.running))
    yield _gauge(engine, "num_queue_reqs", "The number of requests in the waiting queue.", len(engine.queue))
    yield _gauge(engine, "gen_throughput", "The generation throughput (token/s).", gauges.gen_throughput)
    yield _gauge(engine, "token_usage", "The token usage.", round(engine.token_usage, 2))
    yield _gauge(engine, "full_token_usage", "The token usage for full attention layers.", engine.token_usage)
    yield _gauge(engine, "num_used_tokens", "The number of used tokens.", used)
    yield _gauge(engine, "kv_used_tokens", "Number of actively used token slots in the KV cache pool.", used)
    yield _gauge(engine, "cache_hit_rate", "The prefix cache hit rate.", 0.0)
    yield _gauge(engine, "fwd_occupancy", "Forward pass GPU occupancy percentage.", _occupancy(engine))
    yield _gauge(engine, "is_cuda_graph", "Whether the batch is using CUDA graph.", 0.0)
    yield _gauge(engine, "utilization", "The utilization.", 0.0)
    yield (
        "realtime_tokens_total",
        "counter",
        "Total number of tokens processed. mode: prefill_compute, prefill_cache, decode.",
        [(_labels(engine, mode=mode), count) for mode, count in engine.realtime.items()],
    )


def _occupancy(engine: Engine) -> float:
    """NaN on purpose without the device timer and while nothing runs."""
    return engine.gauges.fwd_occupancy if engine.options.device_timer and engine.running else float("nan")


def _speculation(engine: Engine) -> Iterator[Family]:
    gauges = engine.gauges
    active = engine.options.speculative
    yield _gauge(
        engine,
        "spec_accept_length",
        "Mean acceptance length of speculative decoding (accepted drafts + bonus token per forward).",
        gauges.accept_length,
    )
    yield _gauge(
        engine,
        "spec_accept_rate",
        "Speculative acceptance rate (`accepted drafts / proposed drafts` in batch).",
        gauges.accept_rate,
    )
    yield _gauge(
        engine, "spec_num_steps", "Currently active speculative_num_steps.", gauges.num_steps if active else 0.0
    )
    yield _gauge(
        engine,
        "spec_num_draft_tokens",
        "Currently active speculative_num_draft_tokens (decouples from steps under topk>1).",
        gauges.num_steps + 1 if active else 0.0,
    )


def _every_rank(engine: Engine) -> Iterator[Family]:
    """Families each tensor-parallel rank exports."""
    ranks = range(engine.options.tp)

    def constant(name: str, help_text: str, value: float, **more: str) -> Family:
        return name, "gauge", help_text, [(_labels(engine, rank, **more), value) for rank in ranks]

    yield constant("max_total_num_tokens", "Maximum total number of tokens.", engine.options.max_total_tokens)
    yield constant("weight_memory_usage_gb", "Memory used by model weights in GB.", WEIGHT_GB)
    yield constant("kv_cache_memory_usage_gb", "Memory used by the KV cache pools in GB.", KV_GB)
    yield constant(
        "graph_memory_usage_gb", "Memory used by captured device graphs in GB.", GRAPH_GB, phase="target_verify"
    )
    yield constant("context_len", "Maximum context length.", engine.options.context_length)
    yield (
        "cuda_graph_passes_total",
        "counter",
        "Total number of forward passes categorized by CUDA graph.",
        [(_labels(engine, rank, mode=mode), count) for rank in ranks for mode, count in engine.graph_passes.items()],
    )
    if engine.options.device_timer:
        yield (
            "forward_execution_seconds_total",
            "counter",
            "Total time that GPU is busy executing model forward passes. Refer to ForwardMode for category labels.",
            [
                (_labels(engine, rank, category=category), seconds * engine.rank_factor(rank))
                for rank in ranks
                for category, seconds in engine.forward_s.items()
            ],
        )
    yield (
        "scheduler_idle_seconds_total",
        "counter",
        "Total wall time while the scheduler has no runnable or queued work.",
        [(_labels(engine, rank), engine.idle_s) for rank in ranks],
    )


def _front_end(engine: Engine, startup_s: dict[str, float]) -> Iterable[Family]:
    """Families of the tokenizer process; they move when a request ends."""
    streaming = {"is_streaming": "false"}
    return [
        (
            "prompt_tokens_total",
            "counter",
            "Number of prefill tokens processed.",
            [(_front(engine, **streaming), engine.prompt_tokens)],
        ),
        (
            "generation_tokens_total",
            "counter",
            "Number of generation tokens processed.",
            [(_front(engine, **streaming), engine.generation_tokens)],
        ),
        (
            "spec_verify_calls_total",
            "counter",
            "Number of speculative decoding verification calls.",
            [(_front(engine), engine.verify_calls)],
        ),
        (
            "num_requests_total",
            "counter",
            "Number of requests processed.",
            [(_front(engine, **streaming), engine.finished)],
        ),
        (
            "startup_time_seconds",
            "gauge",
            "Engine startup duration by phase in seconds.",
            [(_front(engine, phase=phase), seconds) for phase, seconds in startup_s.items()],
        ),
    ]
