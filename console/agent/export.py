"""The console's own figures as Prometheus text, for ``GET /metrics`` of the agent.

Only what is true now is exported: a stale figure is left out, so that a graph shows a gap instead of a line.
Format: https://prometheus.io/docs/instrumenting/exposition_formats/ (text, version 0.0.4).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from console import rig

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PREFIX = "sglang_console_"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[dict[str, str], float | None]

GPU_CELLS = (
    # field of rig.Gpu, metric, help, factor to base units
    ("util_pct", "gpu_utilization_ratio", "Share of time the GPU was busy.", 0.01),
    ("mem_used_bytes", "gpu_memory_used_bytes", "Memory in use.", 1.0),
    ("mem_total_bytes", "gpu_memory_total_bytes", "Memory of the GPU.", 1.0),
    ("power_w", "gpu_power_watts", "Power draw.", 1.0),
    ("temp_c", "gpu_temperature_celsius", "Temperature.", 1.0),
    ("sm_clock_mhz", "gpu_sm_clock_hertz", "SM clock.", 1e6),
    ("pcie_tx_bytes_s", "gpu_pcie_transmit_bytes_per_second", "PCIe bytes sent by the GPU.", 1.0),
    ("pcie_rx_bytes_s", "gpu_pcie_receive_bytes_per_second", "PCIe bytes received by the GPU.", 1.0),
    ("ecc_uncorrected", "gpu_ecc_uncorrected_errors", "Uncorrected ECC errors since the driver was loaded.", 1.0),
)


def render(snapshot: rig.Snapshot) -> str:
    """All families of a snapshot; one without a value is left out."""
    lines: list[str] = []
    for name, text, samples in _families(snapshot):
        _family(lines, name, text, samples)
    return "\n".join(lines) + "\n"


def _families(snapshot: rig.Snapshot) -> Iterable[tuple[str, str, Sequence[Sample]]]:
    yield from _engine(snapshot)
    yield from _speculation(snapshot)
    for field, name, text, factor in GPU_CELLS:
        yield name, text, [(_gpu_labels(gpu), _scaled(getattr(gpu, field), factor)) for gpu in snapshot.gpus]
    states = [(_gpu_labels(gpu), 1.0 if gpu.state in {"ok", "mig"} else 0.0) for gpu in snapshot.gpus]
    yield "gpu_up", "1 while the GPU answers.", states
    held = [({"id": alarm.id, "level": alarm.level}, 1.0) for alarm in snapshot.alarms]
    yield "alarm", "1 for each alarm that holds now.", held
    journal = 0.0 if snapshot.agent.journal_note else 1.0
    yield "journal_up", "1 while history is being recorded.", [({}, journal)]


def _engine(snapshot: rig.Snapshot) -> Iterable[tuple[str, str, Sequence[Sample]]]:
    engine, load = snapshot.engine, snapshot.load
    labels = {
        "rig": snapshot.rig,
        "version": snapshot.agent.version,
        "simulated": str(snapshot.simulated).lower(),
        "sglang": engine.version,
        "model": engine.model,
        "drafter": engine.drafter,
        "algorithm": engine.algorithm,
    }
    yield "info", "What this rig is; always 1.", [(labels, 1.0)]
    states = [({"state": state.value}, 1.0 if state is engine.state else 0.0) for state in rig.EngineState]
    yield "engine_state", "1 for the state the engine is in.", states
    yield "requests_running", "Requests being decoded.", [({}, _fresh(load.running))]
    yield "requests_queued", "Requests waiting.", [({}, _fresh(load.queued))]
    yield "decode_tokens_per_second", "Decode throughput over all requests.", [({}, _fresh(load.tok_s))]
    yield "stream_tokens_per_second", "accept_len / cycle.", [({}, _fresh(load.tok_s_stream))]
    yield "kv_usage_ratio", "Share of the KV pool in use.", [({}, _fresh(load.token_usage))]


def _speculation(snapshot: rig.Snapshot) -> Iterable[tuple[str, str, Sequence[Sample]]]:
    cycle, acceptance, targets = snapshot.cycle, snapshot.acceptance, snapshot.targets
    yield "cycle_seconds", "One round of speculation.", [({}, _scaled(_fresh(cycle.total_ms), 1e-3))]
    stages = {"draft": cycle.draft, "verify": cycle.verify, "extend": cycle.extend, "gap": cycle.gap}
    means = [({"stage": name}, _scaled(None if stage.stale else stage.mean_ms, 1e-3)) for name, stage in stages.items()]
    yield "stage_seconds", "Mean time of a stage of the cycle.", means
    yield "cuda_graph_ratio", "Share of verify passes replayed as a CUDA graph.", [({}, _fresh(cycle.graph_share))]
    yield "accept_len", "Tokens a round yields, bonus included.", [({}, _fresh(acceptance.accept_len))]
    conditional = [({"position": str(entry.index)}, entry.conditional.value) for entry in acceptance.positions]
    yield "conditional_acceptance_ratio", "Accepted here given that all before were.", conditional
    yield "depth", "Draft steps in use.", [({}, _fresh(acceptance.depth))]
    yield "baseline_tokens_per_second", "Per stream without speculation.", [({}, targets.baseline.tok_s)]
    yield "break_even_accept_len", "accept_len at which speculation pays.", [({}, targets.break_even_accept_len)]
    yield "accept_len_margin", "accept_len over break-even; below 0 speculation loses.", [({}, targets.margin)]
    yield "speedup_ratio", "Speed over the baseline.", [({}, targets.speedup)]
    pays = {rig.Verdict.PAYS: 1.0, rig.Verdict.LOSES: 0.0}.get(targets.verdict)
    yield (
        "speculation_pays",
        "1 while speculation pays, 0 while it loses; absent while that is not known.",
        [({}, pays)],
    )


def _gpu_labels(gpu: rig.Gpu) -> dict[str, str]:
    labels = {"gpu": str(gpu.index), "uuid": gpu.uuid}
    return labels if gpu.rank is None else labels | {"rank": str(gpu.rank)}


def _fresh(figure: rig.Figure) -> float | None:
    return None if figure.stale else figure.value


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _family(lines: list[str], name: str, text: str, samples: Iterable[Sample]) -> None:
    known = [(labels, value) for labels, value in samples if value is not None and math.isfinite(value)]
    if not known:
        return
    lines.append(f"# HELP {PREFIX}{name} {text}")
    lines.append(f"# TYPE {PREFIX}{name} gauge")
    for labels, value in known:
        lines.append(f"{PREFIX}{name}{_label_text(labels)} {value:.12g}")


def _label_text(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
