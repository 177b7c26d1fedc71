"""One :class:`~console.rig.Snapshot` from everything that is known: pure, no clock, no I/O."""

from __future__ import annotations

import datetime as dt
import math
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
SIGMAS = 1.96
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
    cycle = compose_cycle(inputs.readings, inputs.gpus, inputs.now_s)
    acceptance = compose_acceptance(inputs.readings, inputs.now_s)
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
        load=compose_load(inputs.readings, cycle, acceptance, inputs.now_s),
        targets=compose_targets(inputs.baseline, inputs.goals_tok_s, cycle, acceptance),
        history=inputs.history,
        probe=inputs.readings.probe,
        operation=inputs.operation,
        events=inputs.events,
        log_tail=inputs.log_tail,
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
        fresh = figures.is_fresh(counted.source, counted.at_s, now_s)
        rejected = rig.Figure(share, rig.Source.DERIVED, counted.at_s, stale=not fresh)
    return rig.Acceptance(
        accept_len=figures.of_windows(readings, "accept_len", now_s),
        accept_rate=figures.of_windows(readings, "accept_rate", now_s),
        depth=figures.depth(readings, now_s),
        depth_pinned=readings.depth_pinned,
        rejected_share=rejected,
        positions=positions(counted) if counted is not None else (),
        positions_source=counted.source if counted is not None else None,
        positions_why=why,
    )


def positions(window: Window) -> tuple[rig.Position, ...]:
    """Conditional and marginal acceptance by position from counts (F5, F6)."""
    return tuple(
        rig.Position(index, economics.share(hits, tries), economics.share(hits, window.rounds))
        for index, (tries, hits) in enumerate(zip(window.tries, window.hits, strict=False), start=1)
    )


def accept_len_noise(found: rig.Acceptance) -> float:
    """Half the 95 % interval of accept_len.

    With marginals a_i the accepted count X of a round has E[X] = sum a_i and E[X^2] = sum (2i-1) a_i.
    """
    marginals = [entry.marginal.value for entry in found.positions if entry.marginal.value is not None]
    rounds = found.positions[0].marginal.tries if found.positions else 0
    if not marginals or not rounds or found.accept_len.source is not found.positions_source:
        return RELATIVE_NOISE * (found.accept_len.value or 1.0)
    mean = sum(marginals)
    variance = max(0.0, sum((2 * i - 1) * share for i, share in enumerate(marginals, start=1)) - mean * mean)
    return SIGMAS * math.sqrt(variance / rounds)


# ------------------------------------------------------------------------------------------------- load


def compose_load(readings: Readings, cycle: rig.Cycle, acceptance: rig.Acceptance, now_s: float) -> rig.Load:
    """What the engine is asked to do, and what it yields."""
    running = figures.of_gauges(readings, "running", now_s)
    return rig.Load(
        running=running,
        queued=figures.of_gauges(readings, "queued", now_s),
        tok_s=figures.throughput(readings, running, now_s),
        tok_s_stream=figures.per_stream(acceptance.accept_len, cycle.total_ms),
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
    )
    if why := why_unclear(found, baseline, cycle, acceptance):
        return msgspec.structs.replace(found, verdict=rig.Verdict.UNCLEAR, why=why)
    return found


def why_unclear(found: rig.Targets, baseline: rig.Baseline, cycle: rig.Cycle, acceptance: rig.Acceptance) -> str:
    """Why nothing can be said about the speed-up; empty when it can."""
    if baseline.tok_s is None:
        return baseline.note or "no baseline"
    if acceptance.accept_len.value is None:
        return acceptance.accept_len.why
    if cycle.total_ms.value is None:
        return cycle.total_ms.why
    if acceptance.accept_len.stale or cycle.total_ms.stale:
        return acceptance.accept_len.why or cycle.total_ms.why
    if baseline.stale:
        return f"the baseline is stale: {baseline.note}"
    if cycle.batch is not None and not comparable(baseline.concurrency, cycle.batch):
        streams = "1 stream" if baseline.concurrency == 1 else f"{baseline.concurrency} streams"
        return f"the baseline is for {streams}, {cycle.batch:.0f} run now: measure one at {cycle.batch:.0f}"
    noise = accept_len_noise(acceptance)
    if found.margin is not None and abs(found.margin) < noise:
        return f"within the noise of the measurement (accept_len +/- {noise:.2f})"
    return ""


def comparable(concurrency: int, batch: float) -> bool:
    """Whether a baseline for so many streams says something about a batch of this size."""
    return concurrency / CONCURRENCY_SLACK < batch < concurrency * CONCURRENCY_SLACK
