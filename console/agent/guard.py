"""After a change: does the drafter still win tokens? Watched for a while under load, and taken back when it does not.

SGLang loads a drafter that does not work without a word: the server is healthy and accept_len is 1.00. Only what it does
under load tells, so :class:`Watch` follows the figures after a change and comes to an :class:`Outcome`. It decides on
snapshots alone, without clock or I/O; :func:`watch` is the loop around it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from console import rig
from console.economics import accept_len_constant, accuracy_for
from profiles.schema import Guard

PERIOD_S = 0.5
NOTHING = 1.02
"""accept_len up to which a drafter contributes nothing: the bonus token alone is 1."""
EARLY_SHARE = 0.25
"""A drafter that was below the floor at every look in this share of the window is not given the rest of it."""
EARLY_LOOKS = 4
IDLE_SHARE = 0.5
"""Without a request for this share of the window the change is kept, and said to be unproven."""
SETTLE_S = {rig.Source.PROBE: 0.0, rig.Source.LOADS: 1.0, rig.Source.METRICS: 5.0, rig.Source.LOG: 2.0}
"""A source's figure from so soon after the change covers rounds from before it; the probe begins anew by itself."""
LONGEST_STEP_S = 2.0
"""Looks further apart than this count as this much time under load."""


@dataclass(frozen=True, slots=True)
class Rule:
    """When a change is taken back."""

    floor: float
    """accept_len that it has to hold."""
    why: str
    """Where the floor comes from."""
    window_s: float
    depth: int | None = None
    """The floor is one at this depth: what is seen at another one, because SGLang's policy moves it, is carried over."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended."""

    kept: bool
    proven: bool
    """Requests ran for long enough to tell."""
    message: str
    accept_len: float | None = None
    tok_s: float | None = None
    """Decode speed of one stream."""
    seconds: float = 0.0
    """Under load."""


class Reading(NamedTuple):
    """accept_len and speed at one look."""

    at_s: float
    accept_len: float
    tok_s: float | None


def before(snapshot: rig.Snapshot) -> float | None:
    """accept_len in force before a change, if one was measured lately enough to be true."""
    figure = snapshot.acceptance.accept_len
    return None if figure.stale else figure.value


def depth_of(snapshot: rig.Snapshot) -> int | None:
    """The depth in force, 0 without speculation."""
    value = snapshot.acceptance.depth.value
    return None if value is None else round(value)


def at_depth(accept_len: float, seen: int | None, wanted: int | None) -> float:
    """What a measured accept_len would be at another depth, at constant accuracy (F7); itself where that cannot be said."""
    if not seen or not wanted or seen == wanted:
        return accept_len
    accuracy = accuracy_for(accept_len, seen)
    return accept_len if accuracy is None else accept_len_constant(accuracy, wanted)


def rule_for(
    guard: Guard, earlier: float | None, *, depth_before: int | None = None, depth_after: int | None = None
) -> Rule:
    """The floor of a change: the higher of the profile's two, never below what says that nothing is accepted.

    A change of depth changes accept_len even of the same drafter, so a floor is one at a depth.

    Args:
        guard: the profile's section.
        earlier: accept_len before the change; ``None``: not measured.
        depth_before: the depth it was measured at.
        depth_after: the depth it changes to; ``None``: that does not change.
    """
    depth = depth_after or depth_before
    if earlier is not None:
        earlier = at_depth(earlier, depth_before, depth)
    floor, why = NOTHING, "above 1: something has to be accepted"
    if guard.min_accept_len is not None and guard.min_accept_len > floor:
        floor, why = guard.min_accept_len, "guard.min_accept_len"
    if earlier is not None and earlier * guard.min_share_of_before > floor:
        floor, why = earlier * guard.min_share_of_before, f"{guard.min_share_of_before:.0%} of {earlier:.2f} before"
    return Rule(floor, why, guard.window_s, depth)


def reading(snapshot: rig.Snapshot, changed_s: float, depth: int | None = None) -> Reading | None:
    """What a snapshot tells of the time after a change; ``None`` when nothing was drafted, or when it tells of the time before.

    accept_len is given as at ``depth``.
    """
    figure, running = snapshot.acceptance.accept_len, snapshot.load.running
    if figure.value is None or figure.stale or figure.at_s is None:
        return None
    if (running.value == 0 and not running.stale) or depth_of(snapshot) == 0:
        return None
    if figure.source is not None and figure.at_s < changed_s + SETTLE_S.get(figure.source, 0.0):
        return None
    speed = snapshot.load.tok_s_stream
    accept_len = at_depth(figure.value, depth_of(snapshot), depth)
    return Reading(figure.at_s, accept_len, None if speed.stale else speed.value)


class Watch:
    """Collects looks until they decide.

    Args:
        rule: the floor and the time.
        changed_s: Unix seconds of the change.
    """

    def __init__(self, rule: Rule, changed_s: float) -> None:
        self._rule = rule
        self._changed_s = changed_s
        self._readings: list[Reading] = []
        self._loaded_s = 0.0
        self._idle_since_s = self._last_s = changed_s
        self._below = 0
        self._below_since_s = 0.0

    def take(self, snapshot: rig.Snapshot, now_s: float | None = None) -> Outcome | None:
        """Look once; the outcome when it is clear.

        Args:
            snapshot: the newest one.
            now_s: Unix seconds when it may be an old one: nothing is read from it then, and the time goes on.
        """
        now = snapshot.at_s if now_s is None else now_s
        step, self._last_s = min(max(0.0, now - self._last_s), LONGEST_STEP_S), now
        found = reading(snapshot, self._changed_s, self._rule.depth) if now - snapshot.at_s < LONGEST_STEP_S else None
        if found is None:
            if now - self._idle_since_s >= self._rule.window_s * IDLE_SHARE:
                return self._idle()
            return None
        self._idle_since_s = now
        self._loaded_s += step
        self._readings.append(found)
        self._note_below(found, step)
        return self._decide()

    @property
    def accept_len(self) -> float | None:
        """Mean so far."""
        return _mean([one.accept_len for one in self._readings])

    def progress(self) -> str:
        """One line for the step."""
        if (mean := self.accept_len) is None:
            return f"waiting for requests; accept_len has to hold {self._rule.floor:.2f}"
        left = max(0.0, self._rule.window_s - self._loaded_s)
        return f"accept_len {mean:.2f}, has to hold {self._rule.floor:.2f} ({self._rule.why}), {left:.0f} s left"

    def _note_below(self, found: Reading, step: float) -> None:
        if found.accept_len >= self._rule.floor:
            self._below, self._below_since_s = 0, self._loaded_s
            return
        if not self._below:
            self._below_since_s = self._loaded_s - step
        self._below += 1

    def _decide(self) -> Outcome | None:
        early = self._below >= EARLY_LOOKS and self._loaded_s - self._below_since_s >= self._rule.window_s * EARLY_SHARE
        if not early and self._loaded_s < self._rule.window_s:
            return None
        recent = self._readings[-self._below :] if early else self._readings
        mean = _mean([one.accept_len for one in recent]) or 0.0
        kept = not early and mean >= self._rule.floor
        what = "holds" if kept else "is below"
        text = f"accept_len {mean:.2f} {what} {self._rule.floor:.2f} ({self._rule.why}) over {self._loaded_s:.0f} s under load"
        speed = _mean([one.tok_s for one in recent if one.tok_s is not None])
        return Outcome(kept, True, text, mean, speed, self._loaded_s)

    def _idle(self) -> Outcome:
        mean = self.accept_len
        seen = "" if mean is None else f"accept_len {mean:.2f} over {self._loaded_s:.0f} s, then "
        speed = _mean([one.tok_s for one in self._readings if one.tok_s is not None])
        if mean is not None and mean < self._rule.floor and len(self._readings) > 1:
            text = f"accept_len {mean:.2f} is below {self._rule.floor:.2f} ({self._rule.why}) in the little that ran"
            return Outcome(False, True, text, mean, speed, self._loaded_s)
        text = f"kept, not proven: {seen}no request ran while it was watched"
        return Outcome(True, False, text, mean, speed, self._loaded_s)


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


async def watch(
    sample: Callable[[], rig.Snapshot],
    rule: Rule,
    changed_s: float,
    *,
    report: Callable[[str], None] = lambda _text: None,
    alive: Callable[[], bool] = lambda: True,
    period_s: float = PERIOD_S,
) -> Outcome:
    """Look until it is clear. Cancelled from outside at any time.

    Args:
        sample: the newest snapshot.
        rule: the floor and the time.
        changed_s: Unix seconds of the change.
        report: told what is known at each look.
        alive: whether the engine still runs.
        period_s: between two looks; shorter in a short window.
    """
    watching = Watch(rule, changed_s)
    while True:
        if not alive():
            return Outcome(False, True, "the engine ended while it was watched", watching.accept_len)
        if (outcome := watching.take(sample(), time.time())) is not None:
            return outcome
        report(watching.progress())
        await asyncio.sleep(min(period_s, rule.window_s / 20))
