"""One :class:`~console.rig.Snapshot` from everything that is known: pure, no clock, no I/O."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import msgspec

from console import economics, rig
from console.agent import figures
from console.agent.fingerprint import is_stale
from console.agent.readings import Readings, Window

if TYPE_CHECKING:
    from profiles.schema import Profile

CONCURRENCY_SLACK = 1.5
"""A baseline for n streams is compared up to n times this many running; beyond, like would not be with like."""
RELATIVE_NOISE = 0.02
"""Uncertainty of accept_len where a source gives no counts."""
SLOW_RANK_RATIO = 1.05
"""A rank is called slow when its verify takes this much longer than the middle one's."""


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a snapshot is made of."""

    now_s: float
    seq: int = 0
    rig_name: str = ""
    simulated: bool = False
    agent: rig.AgentInfo = rig.AgentInfo()
    engine: rig.Engine = rig.Engine()
    gpus: tuple[rig.Gpu, ...] = ()
    gpu_note: str = ""
    driver: str = ""
    readings: Readings = Readings()
    baseline: rig.Baseline = rig.Baseline()
    goals_tok_s: tuple[float, ...] = ()
    history: rig.History = rig.History()
    operation: rig.Operation | None = None
    events: tuple[rig.Event, ...] = ()
    log_tail: tuple[str, ...] = ()


def compose(inputs: Inputs) -> rig.Snapshot:
    """The snapshot, without alarms: those follow from it."""
    off = speculation_is_off(inputs.engine)
    cycle = compose_cycle(inputs.readings, inputs.gpus, inputs.now_s)
    acceptance = compose_acceptance(inputs.readings, inputs.now_s)
    if off:
        cycle, acceptance = without_speculation(cycle)
    return rig.Snapshot(
        seq=inputs.seq,
        at_s=inputs.now_s,
        rig=inputs.rig_name,
        simulated=inputs.simulated,
        agent=inputs.agent,
        engine=inputs.engine,
        gpus=inputs.gpus,
        gpu_note=inputs.gpu_note,
        driver=inputs.driver,
        cycle=cycle,
        acceptance=acceptance,
        load=compose_load(inputs.readings, cycle, acceptance, inputs.now_s, off=off),
        targets=compose_targets(inputs.baseline, inputs.goals_tok_s, cycle, acceptance),
        history=inputs.history,
        probe=inputs.readings.probe,
        operation=inputs.operation,
        events=inputs.events,
        log_tail=inputs.log_tail,
    )


OFF = "speculation is off"
ALIVE = frozenset({rig.EngineState.READY, rig.EngineState.PAUSED, rig.EngineState.BUSY})


def speculation_is_off(engine: rig.Engine) -> bool:
    """Whether an engine that has told what it is decodes without speculation."""
    return engine.state in ALIVE and bool(engine.version) and not engine.algorithm


def without_speculation(cycle: rig.Cycle) -> tuple[rig.Cycle, rig.Acceptance]:
    """A round is one decode pass then: it has no stages, and its one token is no acceptance."""
    stage, figure = rig.Stage(why=OFF), rig.Figure(why=OFF)
    return (
        msgspec.structs.replace(cycle, draft=stage, verify=stage, extend=stage, gap=stage),
        rig.Acceptance(accept_len=figure, accept_rate=figure, depth=figure, rejected_share=figure, positions_why=OFF),
    )


# ------------------------------------------------------------------------------------------------ cycle


def compose_cycle(readings: Readings, gpus: tuple[rig.Gpu, ...], now_s: float) -> rig.Cycle:
    """The cycle, its stages, the gap, and the slowest rank."""
    total = figures.of_windows(readings, "cycle_ms", now_s)
    draft, verify, extend = (figures.stage(readings, name, now_s) for name in ("draft", "verify", "extend"))
    source = next((window for window in readings.windows if window.source is total.source), None)
    ranks = next((window.ranks for window in readings.windows if window.ranks), ())
    shown = tuple(rig.RankStages(entry.rank, entry.draft_ms, entry.verify_ms, entry.extend_ms) for entry in ranks)
    slowest, why = slowest_rank(shown, gpus)
    return rig.Cycle(
        total_ms=total,
        draft=draft,
        verify=verify,
        extend=extend,
        gap=figures.gap(total, (draft, verify, extend)),
        batch=source.batch if source is not None else None,
        graph_share=figures.of_windows(readings, "graph_share", now_s),
        ranks=shown,
        slowest_rank=slowest,
        slowest_why=why,
    )


def slowest_rank(ranks: tuple[rig.RankStages, ...], gpus: tuple[rig.Gpu, ...]) -> tuple[int | None, str]:
    """The rank whose verify is clearly slower than the middle one's, and what its GPU says to that."""
    timed = sorted((entry.verify_ms, entry.rank) for entry in ranks if entry.verify_ms is not None)
    if len(timed) < 2:
        return None, ""
    middle = timed[(len(timed) - 1) // 2][0]
    slowest_ms, rank = timed[-1]
    if middle <= 0 or slowest_ms < SLOW_RANK_RATIO * middle:
        return None, ""
    why = f"verify {slowest_ms:.1f} ms, the middle rank {middle:.1f} ms"
    gpu = next((entry for entry in gpus if entry.rank == rank), None)
    if gpu is not None and gpu.throttle:
        why += f"; GPU {gpu.index} is limited by {', '.join(gpu.throttle)}"
    elif (
        gpu is not None and gpu.sm_clock_mhz and gpu.sm_clock_max_mhz and gpu.sm_clock_mhz < 0.9 * gpu.sm_clock_max_mhz
    ):
        why += f"; GPU {gpu.index} runs at {gpu.sm_clock_mhz:.0f} of {gpu.sm_clock_max_mhz:.0f} MHz"
    return rank, why


# ------------------------------------------------------------------------------------------- acceptance


def compose_acceptance(readings: Readings, now_s: float) -> rig.Acceptance:
    """accept_len, rates and acceptance by position."""
    counted = next((window for window in readings.windows if window.rounds and window.tries), None)
    why = "" if counted is not None else "needs the probe: " + (readings.probe.why or "no round counted yet")
    rejected = rig.Figure(why=why)
    if counted is not None and counted.drafted > 0:
        share = 1.0 - counted.accepted / counted.drafted
        limit_s = figures.fresh_limit_s(counted, idle=figures.nothing_runs(readings, now_s))
        fresh = figures.is_fresh(counted.source, counted.at_s, now_s, limit_s)
        rejected = rig.Figure(share, rig.Source.DERIVED, counted.at_s, stale=not fresh)
    found, odd = positions(counted)
    return rig.Acceptance(
        accept_len=figures.of_windows(readings, "accept_len", now_s),
        accept_rate=figures.of_windows(readings, "accept_rate", now_s),
        depth=figures.depth(readings, now_s),
        depth_pinned=readings.depth_pinned,
        rejected_share=rejected,
        positions=found,
        positions_source=counted.source if counted is not None and found else None,
        positions_why=why or odd,
    )


def positions(window: Window | None) -> tuple[tuple[rig.Position, ...], str]:
    """Acceptance by position from the counts of a window, or why they cannot be right.

    The feed counts since the start, also positions of a depth that was in force before: one without a try in this window
    was not drafted.
    """
    if window is None:
        return (), ""
    drafted = next((at for at, count in enumerate(window.tries) if count == 0), len(window.tries))
    try:
        return economics.positions(window.tries[:drafted], window.hits[:drafted], window.rounds), ""
    except economics.NumberError as error:
        return (), str(error)


def accept_len_bounds(found: rig.Acceptance) -> tuple[float, float] | None:
    """Between which values accept_len lies: from the counts it was made of, else a few percent around it."""
    value = found.accept_len.value
    if value is None:
        return None
    if found.positions and found.accept_len.source is found.positions_source:
        return economics.accept_len_bounds(found.positions)
    return value * (1 - RELATIVE_NOISE), value * (1 + RELATIVE_NOISE)


# ------------------------------------------------------------------------------------------------- load


def compose_load(
    readings: Readings, cycle: rig.Cycle, acceptance: rig.Acceptance, now_s: float, *, off: bool = False
) -> rig.Load:
    """What the engine is asked to do, and what it yields; ``off``: a round yields exactly one token."""
    running = figures.of_gauges(readings, "running", now_s)
    accept_len = rig.Figure(1.0) if off else acceptance.accept_len
    return rig.Load(
        running=running,
        queued=figures.of_gauges(readings, "queued", now_s),
        tok_s=figures.throughput(readings, running, now_s),
        tok_s_stream=figures.per_stream(accept_len, cycle.total_ms),
        token_usage=figures.of_gauges(readings, "token_usage", now_s),
    )


# ---------------------------------------------------------------------------------------------- targets


def baseline_of(profile: Profile | None, fingerprint: str) -> rig.Baseline:
    """The profile's baseline; stale when the rig is no longer the one it was measured on."""
    if profile is None or profile.targets.baseline.tok_s is None:
        return rig.Baseline(note="no baseline: measure one (b), or write targets.baseline.tok_s into the profile")
    section = profile.targets.baseline
    stale = is_stale(section.fingerprint, fingerprint)
    note = section.note
    if stale:
        note = "measured on another driver, SGLang, GPU or with other settings" + (f"; {note}" if note else "")
    return rig.Baseline(
        tok_s=section.tok_s,
        at_s=date_s(section.measured),
        fingerprint=section.fingerprint,
        concurrency=section.concurrency,
        stale=stale,
        note=note,
    )


def date_s(text: str) -> float | None:
    """An ISO 8601 date as Unix seconds; a date without a zone is local."""
    try:
        return dt.datetime.fromisoformat(text).timestamp() if text else None
    except (ValueError, OverflowError, OSError):
        return None


def compose_targets(
    baseline: rig.Baseline, goals_tok_s: tuple[float, ...], cycle: rig.Cycle, acceptance: rig.Acceptance
) -> rig.Targets:
    """Break-even and goals, and whether speculation pays; "cannot tell yet" when it would not be fair to say."""
    depth = acceptance.depth.value
    found = economics.targets(
        baseline,
        cycle_ms=cycle.total_ms.value,
        depth=None if depth is None else round(depth),
        accept_len=acceptance.accept_len.value,
        goals_tok_s=goals_tok_s,
        verify_ms=cycle.verify.mean_ms,
        accept_len_bounds=accept_len_bounds(acceptance),
    )
    if why := why_unclear(baseline, cycle, acceptance):
        return msgspec.structs.replace(found, verdict=rig.Verdict.UNCLEAR, why=why)
    return found


def why_unclear(baseline: rig.Baseline, cycle: rig.Cycle, acceptance: rig.Acceptance) -> str:
    """Why nothing would be fair to say although all numbers are there; empty when it is."""
    if baseline.tok_s is None:
        return baseline.note
    for figure in (acceptance.accept_len, cycle.total_ms):
        if figure.value is None or figure.stale:
            return figure.why
    if cycle.batch is not None and not comparable(baseline.concurrency, cycle.batch):
        streams = "1 stream" if baseline.concurrency == 1 else f"{baseline.concurrency} streams"
        return f"the baseline is for {streams}, {cycle.batch:.0f} run now: measure one at {cycle.batch:.0f}"
    return ""


def comparable(concurrency: int, batch: float) -> bool:
    """Whether a baseline for so many streams says something about a batch of this size."""
    return concurrency / CONCURRENCY_SLACK < batch < concurrency * CONCURRENCY_SLACK
