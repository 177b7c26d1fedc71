"""Which source a figure is taken from, and when it counts as old.

One rule for all of them: the best source with a value that is still true; else the newest value there is, marked
stale and saying since when; else no value and the reason. Never 0 for "not known".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from console import rig
from console.agent.readings import Readings, Window, finite

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FRESH_S = {
    # A value is true for about three of its source's periods.
    rig.Source.PROBE: 3.0,
    rig.Source.LOADS: 3.0,
    rig.Source.METRICS: 15.0,
    rig.Source.LOG: 15.0,
    rig.Source.SERVER_INFO: 90.0,
}
QUICK_S = 3.0
ROUNDS_BETWEEN = {rig.Source.LOADS: 15, rig.Source.LOG: 40}
"""Decode rounds between two reports, by SGLang's defaults: --load-snapshot-publish-interval, --decode-log-interval."""
METRICS_OFF = "metrics are off"
NOTHING_YET = "no decode seen yet"


def ago(seconds: float) -> str:
    """An age as an operator says it."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    if seconds < 129600:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:.0f} d"


def is_fresh(source: rig.Source, at_s: float, now_s: float, limit_s: float | None = None) -> bool:
    """Whether something that ``source`` saw at ``at_s`` can be taken for true now."""
    return now_s - at_s <= (FRESH_S.get(source, QUICK_S) if limit_s is None else limit_s)


def fresh_limit_s(window: Window, *, idle: bool) -> float:
    """How long a window is true: slow cycles are reported rarely, and when nothing runs nothing is waited for."""
    limit_s = FRESH_S.get(window.source, QUICK_S)
    if idle:
        return min(limit_s, QUICK_S)
    rounds = ROUNDS_BETWEEN.get(window.source, 0)
    return max(limit_s, 2 * rounds * (finite(window.cycle_ms) or 0.0) / 1000)


def nothing_runs(readings: Readings, now_s: float) -> bool:
    """Whether the server says at this moment that no request is running."""
    running = of_gauges(readings, "running", now_s)
    return running.value == 0 and not running.stale


class Candidate(NamedTuple):
    """One source's reading of a figure."""

    source: rig.Source
    at_s: float
    value: float | None
    limit_s: float | None = None
    """How long it is true; the source's own time without it."""


def pick(candidates: Iterable[Candidate], now_s: float, *, why: str, old: str) -> rig.Figure:
    """The best of several readings of one figure.

    Args:
        candidates: best source first.
        now_s: Unix seconds.
        why: reason when there is no value at all.
        old: what has not happened since, for a stale value ("no decode").
    """
    known = []
    for source, at_s, value, limit_s in candidates:
        number = finite(value)
        if number is None:
            continue
        if is_fresh(source, at_s, now_s, limit_s):
            return rig.Figure(number, source, at_s)
        known.append((at_s, source, number))
    if not known:
        return rig.Figure(why=why)
    at_s, source, number = max(known)
    return rig.Figure(number, source, at_s, stale=True, why=f"{old} for {ago(now_s - at_s)}")


def of_windows(readings: Readings, name: str, now_s: float) -> rig.Figure:
    """A figure of the decode windows, by the name of its field."""
    idle = nothing_runs(readings, now_s)
    candidates = [
        Candidate(window.source, window.at_s, getattr(window, name), fresh_limit_s(window, idle=idle))
        for window in readings.windows
    ]
    return pick(candidates, now_s, why=why_none(readings), old="no decode")


def of_gauges(readings: Readings, name: str, now_s: float) -> rig.Figure:
    """A figure that holds at a moment, by the name of its field."""
    candidates = [Candidate(gauges.source, gauges.at_s, getattr(gauges, name)) for gauges in readings.gauges]
    return pick(candidates, now_s, why=why_none(readings), old="not confirmed by the server")


def why_none(readings: Readings) -> str:
    """Why nothing is known: the first silent source's reason, else that nothing was decoded yet."""
    for source in (rig.Source.LOADS, rig.Source.METRICS):
        if reason := readings.why.get(source):
            return reason
    return readings.why.get("engine", "") or NOTHING_YET


# --------------------------------------------------------------------------------------------- the cycle


def stage(readings: Readings, name: str, now_s: float) -> rig.Stage:
    """Draft, verify or extend: the probe's with percentiles, else the metrics' mean."""
    known: list[tuple[float, Window, rig.Stage]] = []
    idle = nothing_runs(readings, now_s)
    for window in readings.windows:
        found: rig.Stage | None = getattr(window, name)
        if found is None or finite(found.mean_ms) is None:
            continue
        if is_fresh(window.source, window.at_s, now_s, fresh_limit_s(window, idle=idle)):
            return found
        known.append((window.at_s, window, found))
    if not known:
        return rig.Stage(why=why_no_stage(readings, name))
    at_s, window, found = max(known, key=lambda entry: entry[0])
    return rig.Stage(
        mean_ms=found.mean_ms,
        p50_ms=found.p50_ms,
        p95_ms=found.p95_ms,
        max_ms=found.max_ms,
        rounds=found.rounds,
        source=found.source,
        at_s=at_s,
        stale=True,
        why=_silent_metrics(readings, window) or f"no decode for {ago(now_s - at_s)}",
    )


def _silent_metrics(readings: Readings, last: Window) -> str:
    """Why the metrics, which told the last stage time, tell no newer one; empty while they answer."""
    return readings.why.get(rig.Source.METRICS, "") if last.source is rig.Source.METRICS else ""


def why_no_stage(readings: Readings, name: str) -> str:
    """What would have to be on for a stage's time to be known."""
    if readings.probe.present:
        hook = readings.probe.hooks.get("stages", "")
        if hook and hook != "on":
            return hook
        return f"no {name} round seen yet"
    if reason := readings.why.get(rig.Source.METRICS):
        return reason
    if any(window.source is rig.Source.METRICS for window in readings.windows):
        return (
            "the server's device timer is off: start it with the console, or set SGLANG_ENABLE_METRICS_DEVICE_TIMER=1"
        )
    return why_none(readings)


def gap(total: rig.Figure, stages: Sequence[rig.Stage]) -> rig.Stage:
    """What is left of a cycle when its three stages are taken away."""
    means = [entry.mean_ms for entry in stages]
    if total.value is None or any(mean is None for mean in means):
        return rig.Stage(why="needs the cycle and all three stages")
    rest = total.value - sum(mean for mean in means if mean is not None)
    if rest < -0.05 * total.value:
        return rig.Stage(why="the stages add up to more than the cycle: they were measured over different rounds")
    stale = total.stale or any(entry.stale for entry in stages)
    return rig.Stage(
        mean_ms=max(0.0, rest),
        source=rig.Source.DERIVED,
        at_s=total.at_s,
        stale=stale,
        why=total.why if stale else "",
    )


# ------------------------------------------------------------------------------------------------ load


def per_stream(accept_len: rig.Figure, cycle_ms: rig.Figure) -> rig.Figure:
    """accept_len / cycle: tokens a second of one request."""
    if accept_len.value is None or not cycle_ms.value:
        return rig.Figure(why=accept_len.why or cycle_ms.why or NOTHING_YET)
    times = [figure.at_s for figure in (accept_len, cycle_ms) if figure.at_s is not None]
    return rig.Figure(
        1000.0 * accept_len.value / cycle_ms.value,
        rig.Source.DERIVED,
        min(times) if times else None,
        stale=accept_len.stale or cycle_ms.stale,
        why=accept_len.why or cycle_ms.why,
    )


def throughput(readings: Readings, running: rig.Figure, now_s: float) -> rig.Figure:
    """Decode tokens a second over all requests.

    Idle is a measured 0 only when the server says that nothing runs; its own gauge is sticky and is believed
    only while something does.
    """
    figure = of_windows(readings, "tok_s", now_s)
    if figure.value is not None and not figure.stale:
        return figure
    if running.value == 0 and not running.stale:
        return rig.Figure(0.0, running.source, running.at_s, why="nothing is running")
    if running.value:
        gauge = of_gauges(readings, "tok_s", now_s)
        if gauge.value is not None and not gauge.stale:
            return gauge
    return figure


def depth(readings: Readings, now_s: float) -> rig.Figure:
    """Depth in use: live by the probe, else the gauge, else what the server was launched with."""
    candidates = [Candidate(window.source, window.at_s, window.depth) for window in readings.windows]
    candidates += [Candidate(gauges.source, gauges.at_s, gauges.depth) for gauges in readings.gauges]
    order = {rig.Source.PROBE: 0, rig.Source.METRICS: 1, rig.Source.LOG: 2, rig.Source.SERVER_INFO: 3}
    candidates.sort(key=lambda entry: order.get(entry.source, 9))
    figure = pick(candidates, now_s, why="no speculation", old="not confirmed")
    if figure.value is None and readings.depth_launch is not None:
        return rig.Figure(
            float(readings.depth_launch), rig.Source.SERVER_INFO, why="as launched; live depth is not known"
        )
    return figure
