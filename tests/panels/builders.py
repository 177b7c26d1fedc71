"""Snapshots of situations an operator meets, with the figures of the case the project comes from.

82 tok/s without speculation, a 30 ms cycle at depth 2, accept_len 2.0: speculation loses. At depth 3 with a better drafter it pays.
"""

from __future__ import annotations

import math

import msgspec

from console.rig import (
    Acceptance,
    AgentInfo,
    Alarm,
    Baseline,
    Cycle,
    Engine,
    EngineState,
    Event,
    Failure,
    Figure,
    Goal,
    Gpu,
    GpuProcess,
    History,
    Load,
    Operation,
    Phase,
    Position,
    RankStages,
    Share,
    Snapshot,
    Source,
    Stage,
    Step,
    StepState,
    Targets,
    Verdict,
)

NOW_S = 1_796_119_200.0
"""2026-12-01 10:00:00 UTC."""
GIB = 2**30


def fig(value: float | None, source: Source = Source.PROBE, age_s: float = 0.4, **more) -> Figure:
    return Figure(value=value, source=source, at_s=NOW_S - age_s, **more)


def wilson(hits: int, tries: int) -> Share:
    z, p = 1.959964, hits / tries
    middle = (p + z * z / (2 * tries)) / (1 + z * z / tries)
    half = z / (1 + z * z / tries) * math.sqrt(p * (1 - p) / tries + z * z / (4 * tries * tries))
    return Share(value=p, low=middle - half, high=middle + half, tries=tries)


def gpu(index: int, **changes) -> Gpu:
    sway = math.sin(index * 1.7)
    fields = {
        "index": index,
        "name": "NVIDIA H200",
        "uuid": f"GPU-{index:08d}",
        "rank": index,
        "util_pct": 91 + 6 * sway,
        "mem_used_bytes": int((126.4 + sway) * GIB),
        "mem_total_bytes": int(140.4 * GIB),
        "power_w": 412 + 40 * sway,
        "power_limit_w": 700,
        "temp_c": 58 + 5 * sway,
        "sm_clock_mhz": 1980,
        "sm_clock_max_mhz": 1980,
        "pcie_tx_bytes_s": (1.31 + 0.2 * sway) * 1e9,
        "pcie_rx_bytes_s": (1.28 - 0.2 * sway) * 1e9,
        "processes": (GpuProcess(pid=4301 + index, used_bytes=int(126 * GIB), name="sglang::scheduler", ours=True),),
        "at_s": NOW_S - 0.3,
    }
    return Gpu(**(fields | changes))


def stage(mean: float, spread: float = 0.06, **more) -> Stage:
    return Stage(
        **(
            {
                "mean_ms": mean,
                "p50_ms": mean * 0.99,
                "p95_ms": mean * (1 + spread),
                "max_ms": mean * (1 + 2.6 * spread),
                "rounds": 66,
                "source": Source.PROBE,
                "at_s": NOW_S - 0.4,
            }
            | more
        )
    )


def goal(
    tok_s: float,
    accept_len: float,
    unlimited: float,
    at_depth: float | None,
    depth: int,
    verify: float,
    label: str = "",
) -> Goal:
    return Goal(
        tok_s=tok_s,
        accept_len=accept_len,
        accuracy_unlimited=unlimited,
        accuracy_at_depth=at_depth,
        reachable=at_depth is not None,
        min_depth=depth,
        label=label,
        verify_ms_needed=verify,
    )


def waves(middle: float, swing: float, gap_at: int | None = None, count: int = 600) -> tuple[float | None, ...]:
    values: list[float | None] = [
        middle + swing * (math.sin(i / 9) + 0.45 * math.sin(i / 2.3) + 0.2 * math.sin(i * 1.9)) for i in range(count)
    ]
    if gap_at is not None:
        values[gap_at : gap_at + 8] = [None] * 8
    return tuple(values)


ENGINE = Engine(
    state=EngineState.READY,
    since_s=NOW_S - 11_520,
    profile="kimi-k2.5-pcie",
    url="http://127.0.0.1:30000",
    pid=4242,
    version="0.5.23",
    model="moonshotai/Kimi-K2.5",
    drafter="AQ-MedAI/Kimi-K2-Instruct-eagle3",
    algorithm="EAGLE3",
    tp=8,
    topk=1,
    depth_launch=2,
    draft_tokens=3,
    attention_backend="flashinfer",
    started_at_s=NOW_S - 12_100,
    ready_at_s=NOW_S - 11_520,
    log_path="/home/op/.local/state/sglang-console/default/engine.log",
)

LOG = (
    (
        "[2026-12-01 09:59:56 TP0] Decode batch, #running-req: 1, #token: 4181, token usage: 0.02, accept len: 2.01, accept rate: 0.50, "
        "cuda graph: True, gen throughput (token/s): 60.84, #queue-req: 0"
    ),
    '[2026-12-01 09:59:57] INFO:     127.0.0.1:51544 - "GET /v1/loads?include=core,spec HTTP/1.1" 200 OK',
    (
        "[2026-12-01 09:59:58 TP0] Decode batch, #running-req: 1, #token: 4221, token usage: 0.02, accept len: 1.98, accept rate: 0.49, "
        "cuda graph: True, gen throughput (token/s): 60.12, #queue-req: 0"
    ),
    "[2026-12-01 09:59:58 TP3] WARNING: the allreduce of this step took 9.1 ms",
    (
        "[2026-12-01 09:59:59 TP0] Decode batch, #running-req: 1, #token: 4261, token usage: 0.02, accept len: 2.02, accept rate: 0.51, "
        "cuda graph: True, gen throughput (token/s): 61.33, #queue-req: 0"
    ),
)

BASELINE = Baseline(tok_s=82.0, at_s=NOW_S - 3 * 3600, fingerprint="a1b2c3d4", concurrency=1)


def loses() -> Snapshot:
    """The story: a 3-token verify of 30 ms at accept_len 2.0."""
    return Snapshot(
        seq=1234,
        at_s=NOW_S,
        rig="default",
        agent=AgentInfo(pid=4100, version="0.1.0", started_at_s=NOW_S - 13_000, host="box-07"),
        engine=ENGINE,
        gpus=tuple(gpu(i) for i in range(8)),
        driver="570.124.06",
        cycle=Cycle(
            total_ms=fig(30.0),
            draft=stage(0.62),
            verify=stage(26.1, 0.03),
            extend=stage(0.41),
            gap=stage(2.87, 0.2, source=Source.DERIVED, max_ms=None),
            batch=1.0,
            graph_share=fig(1.0, Source.METRICS, 2.4),
            ranks=tuple(RankStages(rank=i, draft_ms=0.62, verify_ms=25.9 + 0.05 * i, extend_ms=0.41) for i in range(8)),
            slowest_rank=7,
            slowest_why="",
        ),
        acceptance=Acceptance(
            accept_len=fig(2.0),
            accept_rate=fig(0.5),
            depth=fig(2),
            rejected_share=fig(0.5),
            positions=(
                Position(1, wilson(742, 1200), wilson(742, 1200)),
                Position(2, wilson(458, 742), wilson(458, 1200)),
            ),
            positions_source=Source.PROBE,
        ),
        load=Load(
            running=fig(1, Source.LOADS),
            queued=fig(0, Source.LOADS),
            tok_s=fig(61.0, Source.LOADS),
            tok_s_stream=fig(61.0, Source.DERIVED),
            token_usage=fig(0.02, Source.LOADS),
        ),
        targets=Targets(
            baseline=BASELINE,
            cycle_ms=30.0,
            depth=2,
            break_even_accept_len=2.46,
            ceiling_tok_s=100.0,
            accept_len=2.0,
            speed_tok_s=66.67,
            speedup=0.813,
            margin=-0.46,
            verdict=Verdict.LOSES,
            why="accept_len 2.00 is 0.46 short of break-even 2.46 at a 30.0 ms cycle",
            goals=(
                goal(82.0, 2.46, 0.5935, 0.8077, 2, 20.5, "break-even"),
                goal(150.0, 4.5, 0.7778, None, 4, 9.43),
                goal(200.0, 6.0, 0.8333, None, 5, 6.1),
            ),
        ),
        history=History(
            cycle_ms=waves(30.0, 0.9, gap_at=560),
            draft_ms=waves(0.62, 0.03),
            verify_ms=waves(26.1, 0.7),
            accept_len=waves(2.0, 0.12, gap_at=560),
            tok_s=waves(61.0, 3.0),
        ),
        alarms=(
            Alarm(
                id="below-break-even",
                level="warn",
                since_s=NOW_S - 247,
                text="speculation loses: accept_len 2.00 under break-even 2.46",
                causes=(
                    "verify takes 26.1 ms of a 30.0 ms cycle",
                    "the drafter was trained for another target",
                    "depth 2 caps the gain",
                ),
            ),
        ),
        events=(
            Event(at_s=NOW_S - 12_100, level="info", text="engine started from profile kimi-k2.5-pcie by anna"),
            Event(at_s=NOW_S - 11_520, level="info", text="engine is ready after 9m40s"),
            Event(at_s=NOW_S - 10_800, level="info", text="baseline measured: 82.0 tok/s, 1 stream"),
            Event(at_s=NOW_S - 247, level="warn", text="accept_len fell below break-even"),
        ),
        log_tail=LOG,
    )


def pays() -> Snapshot:
    """A better drafter at depth 5, pinned; verify grows to 33 ms and still it pays."""
    snapshot = loses()
    shares = ((1008, 1200), (815, 1008), (640, 815), (489, 640), (360, 489))
    return msgspec.structs.replace(
        snapshot,
        cycle=msgspec.structs.replace(
            snapshot.cycle,
            total_ms=fig(34.1),
            draft=stage(1.9),
            verify=stage(29.0),
            extend=stage(0.41),
            gap=stage(2.79, source=Source.DERIVED),
        ),
        acceptance=Acceptance(
            accept_len=fig(3.76),
            accept_rate=fig(0.55),
            depth=fig(5),
            depth_pinned=True,
            rejected_share=fig(0.45),
            positions=tuple(Position(i + 1, wilson(h, n), wilson(h, 1200)) for i, (h, n) in enumerate(shares)),
            positions_source=Source.PROBE,
        ),
        engine=msgspec.structs.replace(snapshot.engine, candidate_steps=(0, 1, 2, 3, 5), depth_launch=5),
        load=msgspec.structs.replace(snapshot.load, tok_s=fig(110.3, Source.LOADS)),
        targets=Targets(
            baseline=BASELINE,
            cycle_ms=34.1,
            depth=5,
            break_even_accept_len=2.80,
            ceiling_tok_s=176.0,
            accept_len=3.76,
            speed_tok_s=110.3,
            speedup=1.345,
            margin=0.96,
            verdict=Verdict.PAYS,
            why="accept_len 3.76 is 0.96 above break-even 2.80 at a 34.1 ms cycle",
            goals=(
                goal(82.0, 2.80, 0.6429, 0.6837, 2, 40.7, "break-even"),
                goal(100.0, 3.41, 0.7067, 0.7580, 3, 32.5),
                goal(150.0, 5.12, 0.8047, 0.9302, 5, 20.0),
                goal(200.0, 6.82, 0.8534, None, 6, 13.7),
            ),
        ),
        history=msgspec.structs.replace(snapshot.history, cycle_ms=waves(34.1, 0.8), accept_len=waves(3.76, 0.2)),
        alarms=(),
        events=(
            *snapshot.events,
            Event(at_s=NOW_S - 60, level="info", text="depth 2 to 5, live, by anna: done in 0.2 s"),
        ),
    )


def starting() -> Snapshot:
    """Twenty per cent into a start whose earlier runs are known."""
    phases = (
        Phase("spawn", "imports and processes", NOW_S - 131, 44.0, 45.0),
        Phase("distributed", "NCCL init", NOW_S - 87, 6.2, 6.0),
        Phase("weights", "load weights", NOW_S - 81, None, 310.0, 0.26, "16 of 62 shards, 1.9 GB/s"),
        Phase("draft_weights", "load drafter", None, None, 9.0),
        Phase("kv", "KV cache", None, None, 4.0),
        Phase("graphs", "capture CUDA graphs", None, None, 95.0),
        Phase("draft_graphs", "capture draft graphs", None, None, 62.0),
        Phase("warmup", "first token", None, None, 12.0),
    )
    return _without_figures(
        msgspec.structs.replace(
            ENGINE,
            state=EngineState.STARTING,
            since_s=NOW_S - 131,
            started_at_s=NOW_S - 131,
            ready_at_s=None,
            phases=phases,
            progress=0.23,
            eta_s=412,
            eta_from="3 earlier starts",
            note="loading weights",
        ),
        "the engine is starting",
        gpu_changes={"util_pct": 3, "mem_used_bytes": int(31 * GIB), "power_w": 121},
    )


def dead() -> Snapshot:
    """Out of memory while graphs were captured, on all eight ranks."""
    failure = Failure(
        kind="oom_graph_capture",
        message="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.12 GiB. GPU 3 has a total capacity of 139.81 GiB of "
        "which 812.44 MiB is free.",
        ranks=tuple(f"TP{i}" for i in range(8)),
        advice="lower --mem-fraction-static to 0.85, then --cuda-graph-max-bs-decode; the profile is unchanged: press e, edit, r",
    )
    phases = (
        Phase("spawn", "imports and processes", NOW_S - 331, 44.0, 45.0),
        Phase("weights", "load weights", NOW_S - 287, 201.0, 310.0),
        Phase("graphs", "capture CUDA graphs", NOW_S - 86, None, 95.0),
    )
    snapshot = _without_figures(
        msgspec.structs.replace(
            ENGINE,
            state=EngineState.DEAD,
            since_s=NOW_S - 38,
            exit_code=1,
            failure=failure,
            phases=phases,
            pid=None,
            ready_at_s=None,
        ),
        "the engine is not running",
        gpu_changes={"util_pct": 0, "mem_used_bytes": int(0.4 * GIB), "power_w": 78, "processes": ()},
    )
    return msgspec.structs.replace(
        snapshot,
        alarms=(
            Alarm(
                id="dead",
                level="error",
                since_s=NOW_S - 38,
                text="the engine ended by itself, exit code 1",
                causes=("CUDA out of memory",),
            ),
        ),
        log_tail=(
            "[2026-12-01 09:59:20 TP3] Capture cuda graph begin. This can take up to several minutes. avail mem=0.79 GB",
            "[2026-12-01 09:59:21 TP3] Scheduler hit an exception: Traceback (most recent call last):",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.12 GiB.",
        ),
    )


def nothing_running() -> Snapshot:
    return msgspec.structs.replace(
        _without_figures(
            Engine(),
            "nothing is running",
            gpu_changes={"util_pct": 0, "mem_used_bytes": int(0.4 * GIB), "power_w": 78, "processes": ()},
        ),
        events=(),
        log_tail=(),
    )


def stale() -> Snapshot:
    """No decode for four minutes: the gauges stick, the histories end."""
    snapshot = loses()
    why = "no decode for 4 min"
    old = {"stale": True, "why": why, "age_s": 251}
    ended = (None,) * 251
    gone = {"stale": True, "at_s": NOW_S - 251, "why": ""}
    return msgspec.structs.replace(
        snapshot,
        cycle=msgspec.structs.replace(
            snapshot.cycle,
            total_ms=fig(30.0, **old),
            draft=stage(0.62, **gone),
            verify=stage(26.1, **gone),
            extend=stage(0.41, **gone),
            gap=stage(2.87, **gone),
        ),
        acceptance=msgspec.structs.replace(
            snapshot.acceptance, accept_len=fig(2.87, **old), rejected_share=fig(0.5, **old)
        ),
        load=msgspec.structs.replace(snapshot.load, running=fig(0, Source.LOADS), tok_s=fig(None, why=why)),
        targets=msgspec.structs.replace(
            snapshot.targets,
            verdict=Verdict.UNCLEAR,
            why=why,
            speedup=None,
            speed_tok_s=None,
            margin=None,
            baseline=msgspec.structs.replace(BASELINE, stale=True, note="driver 565.57.01 then, 570.124.06 now"),
        ),
        history=msgspec.structs.replace(
            snapshot.history,
            cycle_ms=waves(30.0, 0.9)[:349] + ended,
            accept_len=waves(2.0, 0.12)[:349] + ended,
        ),
        alarms=(),
    )


def many_gpus() -> Snapshot:
    return msgspec.structs.replace(
        loses(),
        gpus=tuple(
            gpu(i, rank=i if i < 8 else None, throttle=("power cap",) if i % 21 == 5 else ()) for i in range(64)
        ),
    )


def lost_gpu() -> Snapshot:
    """One GPU fell off the bus, one is slowed down, one is in MIG mode, one carries a stranger, one has no power reading."""
    gpus = list(loses().gpus)
    gpus[1] = gpu(1, throttle=("power cap", "thermal"), temp_c=87, sm_clock_mhz=1410)
    gpus[2] = gpu(2, state="mig", note="2 instances", util_pct=None, missing={"util_pct": "n/a (MIG)"})
    gpus[3] = Gpu(
        index=3,
        name="NVIDIA H200",
        rank=3,
        state="lost",
        note="LOST 09:58:41 fell off the bus",
        xid=79,
        xid_at_s=NOW_S - 79,
        at_s=NOW_S - 79,
    )
    gpus[4] = gpu(4, processes=(*gpus[4].processes, GpuProcess(pid=9120, used_bytes=12 * GIB, name="python")))
    gpus[5] = gpu(
        5,
        power_w=None,
        pcie_tx_bytes_s=None,
        pcie_rx_bytes_s=None,
        missing={"power_w": "not supported", "pcie": "not supported"},
    )
    gpus[6] = gpu(6, at_s=NOW_S - 14)
    return msgspec.structs.replace(
        loses(),
        gpus=tuple(gpus),
        alarms=(
            Alarm(
                id="gpu-lost",
                level="error",
                since_s=NOW_S - 79,
                text="GPU 3 is lost: the engine will fail",
                causes=("Xid 79: fell off the bus",),
            ),
        ),
    )


def no_nvml() -> Snapshot:
    return msgspec.structs.replace(
        loses(),
        gpus=(),
        driver="",
        gpu_note="Driver/library version mismatch: the driver was upgraded while loaded - reload it or reboot",
    )


def simulated() -> Snapshot:
    return msgspec.structs.replace(
        pays(), simulated=True, rig="demo", engine=msgspec.structs.replace(pays().engine, profile="demo")
    )


def operating() -> Snapshot:
    """A drafter swap in its third step."""
    return msgspec.structs.replace(
        loses(),
        operation=Operation(
            id="op-7",
            kind="swap",
            title="swap drafter to AQ-MedAI/Kimi-K2-Instruct-eagle3",
            by="anna",
            path="live",
            started_at_s=NOW_S - 1.9,
            expected_s=4.0,
            cancellable=True,
            steps=(
                Step("validate", StepState.DONE, "23 of 23 checks good", 0.4),
                Step("pause", StepState.DONE, "", 0.1),
                Step("copy on every rank", StepState.RUNNING, "5 of 8 ranks"),
                Step("prove by checksum"),
                Step("resume"),
                Step("watch accept_len"),
            ),
            before="eagle3-own-37k",
            after="Kimi-K2-Instruct-eagle3",
        ),
    )


def metrics_only() -> Snapshot:
    """Attached to somebody else's server: no probe, no stages, no positions, no log."""
    snapshot = loses()
    return msgspec.structs.replace(
        snapshot,
        engine=msgspec.structs.replace(
            snapshot.engine, attached=True, pid=None, profile="", log_path="", started_at_s=None, ready_at_s=NOW_S - 90
        ),
        cycle=Cycle(
            total_ms=fig(30.0, Source.LOADS, 0.6),
            draft=Stage(why="no device timer"),
            verify=Stage(why="no device timer"),
            extend=Stage(why="no device timer"),
            gap=Stage(why="no stages"),
            graph_share=Figure(why="metrics are off"),
        ),
        acceptance=Acceptance(
            accept_len=fig(2.0, Source.LOADS, 0.6),
            depth=fig(2, Source.SERVER_INFO, 9),
            positions_why="needs the probe, or a calibration (c)",
        ),
        targets=Targets(
            baseline=Baseline(),
            cycle_ms=30.0,
            depth=2,
            ceiling_tok_s=100.0,
            accept_len=2.0,
            speed_tok_s=66.67,
            why="no baseline: press b to measure one",
        ),
        log_tail=(),
    )


HOSTILE = (
    "[bold red]not markup[/] [link=x]",
    "\x1b[31mred\x1b]0;title\x07 \x9b2J",
    "emoji 👩‍🚀 ❤️ 🇩🇪 family 👨‍👩‍👧",
    "rtl \u202eevil\u202c שלום مرحبا",
    "zero\u200bwidth\ufeff\u00adsoft",
    "e\u0301" + "\u0301" * 40 + " zalgo",
    "汉字" * 90,
    "x" * 5000,
    "tab\there\rcr\nlf\x00nul",
    "\ud800 lone surrogate",
)


def hostile() -> Snapshot:
    """Names and log lines from an enemy, or from a model's chat template."""
    snapshot = loses()
    return msgspec.structs.replace(
        snapshot,
        engine=msgspec.structs.replace(snapshot.engine, model=HOSTILE[0], drafter=HOSTILE[2], note=HOSTILE[1]),
        gpus=(gpu(0, name=HOSTILE[3], note=HOSTILE[1]), gpu(1, state="error", note=HOSTILE[6])),
        alarms=(Alarm(id="a", level="warn", since_s=NOW_S - 5, text=HOSTILE[3], causes=(HOSTILE[0], HOSTILE[4])),),
        events=tuple(Event(at_s=NOW_S - i, level="info", text=text) for i, text in enumerate(HOSTILE)),
        log_tail=HOSTILE,
    )


def _without_figures(engine: Engine, why: str, gpu_changes: dict) -> Snapshot:
    snapshot = loses()
    return msgspec.structs.replace(
        snapshot,
        engine=engine,
        gpus=tuple(gpu(i, rank=i if engine.state is not EngineState.NONE else None, **gpu_changes) for i in range(8)),
        cycle=Cycle(total_ms=Figure(why=why)),
        acceptance=Acceptance(accept_len=Figure(why=why)),
        load=Load(),
        targets=Targets(baseline=BASELINE, why=why),
        history=History(),
        alarms=(),
    )


SITUATIONS = {
    "loses": loses,
    "pays": pays,
    "starting": starting,
    "dead": dead,
    "nothing": nothing_running,
    "stale": stale,
    "many_gpus": many_gpus,
    "lost_gpu": lost_gpu,
    "no_nvml": no_nvml,
    "simulated": simulated,
    "operating": operating,
    "metrics_only": metrics_only,
    "hostile": hostile,
}
