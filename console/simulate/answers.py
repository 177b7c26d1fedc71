"""The JSON bodies of SGLang's read routes."""

from __future__ import annotations

import hashlib
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from console.simulate import VERSION
from console.simulate.feed import checksum
from console.simulate.startup import GRAPH_GB, KV_GB, WEIGHT_GB

if TYPE_CHECKING:
    from console.simulate.engine import Engine
    from console.simulate.traffic import Request

TARGET_CONFIG: dict[str, Any] = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "model_type": "kimi_k25",
    "text_config": {
        "model_type": "kimi_k2",
        "hidden_size": 7168,
        "vocab_size": 163840,
        "num_hidden_layers": 61,
        "max_position_embeddings": 131072,
        "torch_dtype": "bfloat16",
    },
    "vision_config": {},
}
"""Geometry of the target that is simulated; there is no folder to read it from."""

SYLLABLES = ("ba", "ke", "li", "mo", "nu", "ra", "se", "to")


def server_args(engine: Engine) -> dict[str, Any]:
    """The resolved arguments, flat, as ``/server_info`` shows them."""
    options = engine.options
    return {
        "model_path": options.model,
        "tokenizer_path": options.model,
        "served_model_name": options.served_name,
        "revision": options.revision,
        "context_length": options.context_length,
        "tp_size": options.tp,
        "dp_size": 1,
        "pp_size": 1,
        "base_gpu_id": 0,
        "gpu_id_step": 1,
        "device": "cuda",
        "host": options.host,
        "port": options.port,
        "api_key": "<redacted>" if options.api_key else None,
        "admin_api_key": "<redacted>" if options.admin_key else None,
        "max_running_requests": options.max_running,
        "max_total_tokens": options.max_total_tokens,
        "attention_backend": options.attention_backend,
        "enable_metrics": options.metrics,
        "decode_log_interval": options.decode_log_interval,
        "disable_decode_cuda_graph": False,
        "speculative_algorithm": options.algorithm or None,
        "speculative_draft_model_path": options.drafter or None,
        "speculative_num_steps": options.depth if options.speculative else None,
        "speculative_eagle_topk": options.topk if options.speculative else None,
        "speculative_num_draft_tokens": options.draft_tokens if options.speculative else None,
        "speculative_attention_mode": options.attention_mode,
        "speculative_adaptive": options.tiers is not None,
    }


def server_info(engine: Engine, startup_s: dict[str, float]) -> dict[str, Any]:
    """``GET /server_info``: top level keeps the launch values, ``internal_states`` follows the live ones."""
    options = engine.options
    flat = server_args(engine)
    live = {
        **flat,
        "startup_time": startup_s,
        "effective_max_running_requests_per_dp": options.max_running,
        "last_gen_throughput": engine.gauges.gen_throughput,
        "memory_usage": {
            "weight": WEIGHT_GB,
            "kvcache": KV_GB,
            "token_capacity": options.max_total_tokens,
            "graph": {"target_verify": GRAPH_GB},
        },
    }
    if options.speculative:
        rounds = engine.acceptance.rounds
        live["speculative_num_steps"] = engine.depth
        live["speculative_num_draft_tokens"] = engine.depth + 1
        live["avg_spec_accept_length"] = 1 + engine.acceptance.accepted / rounds if rounds else 0.0
    return {
        **flat,
        "simulated": True,
        "launch_command": " ".join(_masked(options.argv)),
        "status": "ready",
        "max_total_num_tokens": options.max_total_tokens,
        "max_req_input_len": options.context_length - 6,
        "startup_time": startup_s,
        "internal_states": [live],
        "version": VERSION,
        "frontend": "python",
    }


def _masked(argv: tuple[str, ...]) -> list[str]:
    """The command line without its keys."""
    secret = {"--api-key", "--admin-api-key"}
    return ["***" if index and argv[index - 1] in secret else word for index, word in enumerate(argv)]


def model_info(engine: Engine) -> dict[str, Any]:
    """``GET /model_info``."""
    return {
        "model_path": engine.options.model,
        "served_model_name": engine.options.served_name,
        "tokenizer_path": engine.options.model,
        "is_generation": True,
        "preferred_sampling_params": None,
        "weight_version": "default",
        "load_format": "auto",
        "model_type": "kimi_k25",
        "architectures": TARGET_CONFIG["architectures"],
        "simulated": {"target": TARGET_CONFIG},
    }


def models(engine: Engine, started_s: float) -> dict[str, Any]:
    """``GET /v1/models``."""
    card = {
        "id": engine.options.served_name,
        "object": "model",
        "created": int(started_s),
        "owned_by": "sglang",
        "root": engine.options.served_name,
        "parent": None,
        "max_model_len": engine.options.context_length,
    }
    return {"object": "list", "data": [card]}


def loads(engine: Engine) -> dict[str, Any]:
    """``GET /v1/loads``: cheap, cumulative, no scheduler round trip."""
    options, gauges, counters = engine.options, engine.gauges, engine.acceptance
    load: dict[str, Any] = {
        "timestamp": time.time(),
        "dp_rank": 0,
        "num_running_reqs": len(engine.running),
        "num_waiting_reqs": len(engine.queue),
        "num_used_tokens": engine.used_tokens,
        "num_total_tokens": engine.used_tokens,
        "max_total_num_tokens": options.max_total_tokens,
        "max_running_requests": options.max_running,
        "token_usage": round(engine.token_usage, 4),
        "gen_throughput": round(gauges.gen_throughput, 2),
        "cache_hit_rate": 0.0,
        "utilization": 0.0,
        "decode_moments": list(engine.moments),
        "memory": {
            "weight_gb": WEIGHT_GB,
            "kv_cache_gb": KV_GB,
            "graph_gb": GRAPH_GB,
            "token_capacity": options.max_total_tokens,
        },
        "queues": {"waiting": len(engine.queue), "grammar": 0, "paused": 0, "retracted": 0, "prealloc_ready": 0},
    }
    if options.speculative:
        load["speculative"] = {
            "accept_length": 1 + counters.accepted / counters.rounds if counters.rounds else 0.0,
            "accept_rate": gauges.accept_rate,
        }
    return {
        "timestamp": datetime.now(UTC).isoformat(),
        "version": VERSION,
        "accelerator": "SIMULATED H200",
        "num_accelerators": options.tp,
        "simulated": True,
        "loads": [load],
    }


def text_of(request: Request) -> str:
    """The answer's text: as many words as tokens, the same for the same request."""
    seed = int.from_bytes(hashlib.sha256(request.rid.encode()).digest()[:4], "big")
    words = (SYLLABLES[(seed >> (index % 24)) % 8] + SYLLABLES[index % 8] for index in range(request.generated))
    return "".join(f" {word}" for word in words)


def meta_info(request: Request, now_s: float, *, speculative: bool) -> dict[str, Any]:
    """``meta_info`` of a ``/generate`` answer, the histogram of accepted drafts in it."""
    finished = request.finished_s or now_s
    meta: dict[str, Any] = {
        "id": request.rid,
        "finish_reason": {"type": "abort" if request.aborted else "length", "length": request.max_tokens},
        "prompt_tokens": request.prompt_tokens,
        "weight_version": "default",
        "completion_tokens": request.generated,
        "cached_tokens": 0,
        "e2e_latency": finished - request.arrived_s,
    }
    if request.first_token_s is not None:
        decode_s = max(finished - request.first_token_s, 1e-6)
        meta["first_token_latency"] = request.first_token_s - request.arrived_s
        meta["decode_throughput"] = (request.generated - 1) / decode_s
    if speculative and request.verifies:
        accepted = sum(index * count for index, count in enumerate(request.histogram))
        meta |= {
            "spec_accept_rate": accepted / request.proposed if request.proposed else 0.0,
            "spec_accept_length": request.generated / request.verifies,
            "spec_num_correct_drafts": accepted,
            "spec_num_proposed_drafts": request.proposed,
            "spec_verify_ct": request.verifies,
            "spec_correct_drafts_histogram": request.histogram,
        }
    return meta


def weights(engine: Engine) -> dict[str, Any]:
    """``POST /weights_checker`` with action checksum: the same on every rank."""
    name = engine.drafter.name if engine.drafter else ""
    own = {"draft.model": checksum(name)} if name else {}
    rank = {"checksums": own, "per_gpu_checksum": checksum(name), "parallelism_info": {}}
    return {
        "success": True,
        "message": "Success.",
        "ranks": [rank] * engine.options.tp,
        "per_engine_checksum": checksum(name),
    }
