"""Alarms: conditions that hold now, each with its likely causes, the likeliest first.

An alarm rises after it has held for a while and falls after it has been gone for a while, so that a figure
that wavers around a limit does not blink.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from console import rig

if TYPE_CHECKING:
    from collections.abc import Iterable

LOSES_RISE_S = 15.0
LOSES_FALL_S = 15.0
SILENT_ACCEPT_LEN = 1.05
"""Below this the drafter contributes nothing: a random draft head yields 1.00 to 1.01."""
SILENT_WINDOWS = 3
LOST_FALL_S = 0.0
OFF_RISE_S = 20.0
OFF_FALL_S = 5.0
CRITICAL_XIDS = frozenset({48, 63, 64, 74, 79, 92, 94, 95, 119, 120})
"""Xids that are faults of the hardware or its firmware, not of a program (13, 31, 43, 45 are the program's)."""


class Condition(NamedTuple):
    """One condition at one moment."""

    id: str
    level: str
    holds: bool | None
    """``None``: cannot be told now; an alarm stays as it is."""
    text: str = ""
    causes: tuple[str, ...] = ()
    rise_s: float = 0.0
    fall_s: float = 0.0
    told: bool = True
    """Rise and fall are events; not where the supervisor has told the same already."""


@dataclass
class _State:
    holds_since_s: float | None = None
    gone_since_s: float | None = None
    alarm: rig.Alarm | None = None


@dataclass
class Alarms:
    """Follows conditions over time."""

    _states: dict[str, _State] = field(default_factory=dict)
    _silent_windows: int = 0
    _silent_at_s: float | None = None

    def update(self, snapshot: rig.Snapshot) -> tuple[tuple[rig.Alarm, ...], tuple[rig.Event, ...]]:
        """Alarms that hold now, and events for those that rose or fell with this snapshot."""
        events: list[rig.Event] = []
        seen = set()
        for condition in self._conditions(snapshot):
            seen.add(condition.id)
            events += self._follow(condition, snapshot.at_s)
        for name in self._states.keys() - seen:
            events += self._follow(Condition(name, "", holds=False), snapshot.at_s)
        self._states = {name: state for name, state in self._states.items() if state.alarm or name in seen}
        order = {"error": 0, "warn": 1}
        alarms = [state.alarm for state in self._states.values() if state.alarm is not None]
        return tuple(sorted(alarms, key=lambda entry: (order.get(entry.level, 2), entry.since_s))), tuple(events)

    def acknowledge(self, alarm_id: str, by: str) -> bool:
        """Note who has seen an alarm; False when it does not hold."""
        state = self._states.get(alarm_id)
        if state is None or state.alarm is None:
            return False
        state.alarm = msgspec.structs.replace(state.alarm, acknowledged_by=by)
        return True

    def _follow(self, condition: Condition, at_s: float) -> list[rig.Event]:
        state = self._states.setdefault(condition.id, _State())
        if condition.holds is None:
            return []
        if condition.holds:
            state.gone_since_s = None
            if state.holds_since_s is None or state.holds_since_s > at_s:  # begun, or the clock was set back
                state.holds_since_s = at_s
            if state.alarm is not None:
                state.alarm = msgspec.structs.replace(state.alarm, text=condition.text, causes=condition.causes)
            elif at_s - state.holds_since_s >= condition.rise_s:
                state.alarm = rig.Alarm(
                    condition.id, condition.level, state.holds_since_s, condition.text, condition.causes
                )
                return [rig.Event(at_s, condition.level, condition.text, kind="alarm")] if condition.told else []
            return []
        state.holds_since_s = None
        if state.alarm is None:
            return []
        if state.gone_since_s is None or state.gone_since_s > at_s:
            state.gone_since_s = at_s
        if at_s - state.gone_since_s < condition.fall_s:
            return []
        over, state.alarm = state.alarm, None
        return [rig.Event(at_s, "info", f"over: {over.text}", kind="alarm")] if condition.told else []

    def _conditions(self, snapshot: rig.Snapshot) -> Iterable[Condition]:
        yield _dead(snapshot)
        yield _loses(snapshot)
        yield self._silent_drafter(snapshot)
        yield from _gpu_conditions(snapshot.gpus)
        yield Condition("journal", "warn", bool(snapshot.agent.journal_note), snapshot.agent.journal_note)
        yield _metrics_off(snapshot)

    def _silent_drafter(self, snapshot: rig.Snapshot) -> Condition:
        """Counts windows, not snapshots: the same measurement seen twice is one."""
        figure = snapshot.acceptance.accept_len
        drafts = snapshot.acceptance.depth.value != 0 and bool(snapshot.engine.algorithm)
        if not under_load(snapshot) or not drafts or figure.value is None or figure.stale:
            return Condition("silent-drafter", "error", None if drafts else False)
        if figure.at_s != self._silent_at_s:
            self._silent_at_s = figure.at_s
            self._silent_windows = self._silent_windows + 1 if figure.value <= SILENT_ACCEPT_LEN else 0
        return Condition(
            "silent-drafter",
            "error",
            self._silent_windows >= SILENT_WINDOWS,
            f"the drafter contributes nothing: accept_len {figure.value:.2f} for {self._silent_windows} windows",
            silent_causes(snapshot),
        )


def under_load(snapshot: rig.Snapshot) -> bool:
    """Whether requests are running now."""
    running = snapshot.load.running
    return running.value is not None and running.value >= 1 and not running.stale


def _dead(snapshot: rig.Snapshot) -> Condition:
    """Nobody asked for its end: it stands until somebody launches or stops it."""
    failure = snapshot.engine.failure
    text = f"the engine is dead: {failure.message}" if failure is not None else "the engine is dead"
    causes = (failure.advice,) if failure is not None and failure.advice else ()
    dead = snapshot.engine.state is rig.EngineState.DEAD
    return Condition("engine-dead", "error", dead, text, causes, told=False)


def _loses(snapshot: rig.Snapshot) -> Condition:
    targets = snapshot.targets
    if not under_load(snapshot) or targets.verdict is rig.Verdict.UNCLEAR:
        return Condition("loses", "warn", None if snapshot.engine.algorithm else False)
    text = "speculation loses"
    if targets.speedup is not None and targets.accept_len is not None and targets.break_even_accept_len is not None:
        text = (
            f"speculation loses: {targets.speedup:.2f}x of no speculation "
            f"(accept_len {targets.accept_len:.2f}, break-even {targets.break_even_accept_len:.2f})"
        )
    causes = loses_causes(snapshot)
    return Condition("loses", "warn", targets.verdict is rig.Verdict.LOSES, text, causes, LOSES_RISE_S, LOSES_FALL_S)


def loses_causes(snapshot: rig.Snapshot) -> tuple[str, ...]:
    """Why speculation may lose, the likeliest first."""
    causes = []
    targets, cycle = snapshot.targets, snapshot.cycle
    graphs = cycle.graph_share.value
    if graphs is not None and graphs < 0.9:
        causes.append(f"verify runs without CUDA graphs in {100 * (1 - graphs):.0f} % of passes")
    if targets.ceiling_tok_s is not None and targets.baseline.tok_s and targets.ceiling_tok_s <= targets.baseline.tok_s:
        causes.append(
            "the ceiling at this depth is below the baseline: no drafter can win; a deeper or cheaper cycle is needed"
        )
    depth = snapshot.acceptance.depth.value
    if (
        depth
        and snapshot.acceptance.accept_len.value is not None
        and snapshot.acceptance.accept_len.value < 1 + 0.3 * depth
    ):
        causes.append(f"few of the {depth:.0f} drafted tokens are accepted: a shallower depth costs less")
    gap, total = cycle.gap.mean_ms, cycle.total_ms.value
    if gap is not None and total and gap > 0.2 * total:
        causes.append(f"{100 * gap / total:.0f} % of the cycle is in none of its stages: host side or communication")
    if cycle.batch is not None and cycle.batch > 4:
        causes.append(f"{cycle.batch:.0f} requests share a cycle: at high batch verification is not free")
    if not causes:
        causes.append("the drafter does not fit these prompts well enough for this cycle time")
    return tuple(causes)


def silent_causes(snapshot: rig.Snapshot) -> tuple[str, ...]:
    """Why a drafter may contribute nothing, the likeliest first."""
    causes = []
    if snapshot.engine.algorithm == "EAGLE":
        causes.append("an EAGLE-3 drafter served as EAGLE: check the algorithm")
    causes += [
        "the drafter's lm_head or another tensor is missing and was left random: console check DRAFTER",
        "the drafter was trained for another target or another quantisation of it",
        "its draft-to-target token map (d2t) does not belong to these weights",
        "prompts are longer than the drafter's context window",
    ]
    return tuple(causes)


def _gpu_conditions(gpus: tuple[rig.Gpu, ...]) -> Iterable[Condition]:
    for gpu in gpus:
        if gpu.uuid.startswith("MIG-"):
            continue
        place = f"GPU {gpu.index}" + (f" (rank {gpu.rank})" if gpu.rank is not None else "")
        if gpu.state in {"lost", "error"}:
            causes = ("the card has fallen off the bus: see dmesg for Xid 79", "power or cabling", "a driver reset")
            yield Condition(
                f"gpu-lost-{gpu.uuid or gpu.index}", "error", holds=True, text=f"{place}: {gpu.note}", causes=causes
            )
        if gpu.xid in CRITICAL_XIDS:
            yield Condition(
                f"xid-{gpu.uuid}", "error", holds=True, text=f"{place}: Xid {gpu.xid}", causes=("see dmesg",)
            )
        if gpu.ecc_uncorrected:
            text = f"{place}: {gpu.ecc_uncorrected} uncorrected ECC errors since the driver was loaded"
            yield Condition(f"ecc-{gpu.uuid}", "warn", holds=True, text=text)


def _metrics_off(snapshot: rig.Snapshot) -> Condition:
    """Stage times need the probe or the metrics; without both only the cycle is known."""
    ready = snapshot.engine.state is rig.EngineState.READY
    verify = snapshot.cycle.verify
    off = ready and not snapshot.probe.present and verify.mean_ms is None and METRICS_OFF in verify.why
    holds = off if ready else None
    if snapshot.engine.state in {rig.EngineState.NONE, rig.EngineState.STOPPED, rig.EngineState.DEAD}:
        holds = False
    causes = ("the server was started without --enable-metrics",)
    text = "no probe and no metrics: stage times cannot be told"
    return Condition("metrics-off", "warn", holds, text, causes, OFF_RISE_S, OFF_FALL_S)


METRICS_OFF = "metrics are off"
"""Part of the reason that :mod:`console.agent.figures` gives when /metrics does not exist."""
