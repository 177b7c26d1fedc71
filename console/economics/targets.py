"""Does speculation pay, and what does each goal ask: break-even first, at the depth in use and at unlimited depth."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from console import rig
from console.economics import guard
from console.economics.constant import accuracy_for, min_depth
from console.economics.speed import break_even, ceiling_tok_s, required_verify_ms, speed_tok_s

BREAK_EVEN = "break-even"

T = TypeVar("T")


def goal(
    tok_s: float,
    cycle_ms: float,
    depth: int | None,
    *,
    accept_len: float | None = None,
    other_ms: float | None = None,
    label: str = "",
) -> rig.Goal:
    """What ``tok_s`` asks of the drafter at this cycle, which is taken as flat in verify width.

    Args:
        tok_s: speed of one stream.
        cycle_ms: the cycle.
        depth: the depth in use; ``None`` leaves the figure at depth open, and reachable means at some depth.
        accept_len: measured accept_len; with it and ``other_ms`` the verify time that would reach the goal is given.
        other_ms: the cycle without verify.
        label: name of the goal.

    Raises:
        NumberError: a speed, cycle or depth that cannot be true.
    """
    needed = break_even(guard.positive("goal", tok_s), cycle_ms)
    at_depth = None if depth is None else accuracy_for(needed, depth)
    verify_ms = None
    if accept_len is not None and other_ms is not None:
        verify_ms = required_verify_ms(tok_s, accept_len, other_ms)
    return rig.Goal(
        tok_s=float(tok_s),
        accept_len=needed,
        accuracy_unlimited=accuracy_for(needed, None),
        accuracy_at_depth=at_depth,
        reachable=depth is None or at_depth is not None,
        min_depth=min_depth(needed),
        label=label,
        verify_ms_needed=verify_ms,
    )


def targets(
    baseline: rig.Baseline,
    cycle_ms: float | None,
    depth: int | None,
    accept_len: float | None,
    goals_tok_s: Iterable[float] = (),
    *,
    verify_ms: float | None = None,
    accept_len_bounds: tuple[float, float] | None = None,
) -> rig.Targets:
    """Break-even, ceiling, speed, verdict and goals from what is known.

    Never raises: a figure that is missing or cannot be true is ``None``, and ``why`` says so.

    Args:
        baseline: decode speed without speculation, per stream.
        cycle_ms: the measured cycle.
        depth: the depth in use.
        accept_len: measured tokens a round, bonus included.
        goals_tok_s: what the operators want, per stream; break-even is put in front.
        verify_ms: verify's part of the cycle; with it each goal says which verify time would reach it.
        accept_len_bounds: interval of accept_len; while break-even lies in it the verdict is "cannot tell yet".
    """
    why: list[str] = []
    base_tok_s = _usable(lambda v: guard.positive("baseline", v), baseline.tok_s, "no baseline measured", why)
    cycle = _usable(lambda v: guard.positive("cycle_ms", v), cycle_ms, "no cycle measured", why)
    at_depth = _usable(guard.depth, depth, "depth is not known", why)
    won = _usable(lambda v: guard.measured_accept_len(v, at_depth), accept_len, "no accept_len measured", why)
    if base_tok_s is not None and cycle is not None and (odd := guard.unit_suspicion(base_tok_s, cycle)):
        why, cycle = [odd], None
    base = msgspec.structs.replace(baseline, tok_s=base_tok_s)
    known = rig.Targets(baseline=base, cycle_ms=cycle, depth=at_depth, accept_len=won)
    if cycle is not None:
        try:
            known = _speeds(known, cycle)
        except guard.NumberError as error:
            why.append(str(error))
        known = msgspec.structs.replace(known, goals=_goals(known, cycle, goals_tok_s, verify_ms, why))
    verdict, reason = _judge(known, accept_len_bounds, why)
    return msgspec.structs.replace(known, verdict=verdict, why=reason)


def _usable(check: Callable[[T], T], value: T | None, missing: str, why: list[str]) -> T | None:
    """``value`` when it is there and can be true; otherwise ``None``, and the reason goes to ``why``."""
    if value is None:
        why.append(missing)
        return None
    try:
        return check(value)
    except guard.NumberError as error:
        why.append(str(error))
        return None


def _speeds(known: rig.Targets, cycle_ms: float) -> rig.Targets:
    """Break-even, ceiling, speed and what follows from them, each where its parts are known."""
    base_tok_s, won = known.baseline.tok_s, known.accept_len
    needed = None if base_tok_s is None else break_even(base_tok_s, cycle_ms)
    speed = None if won is None else speed_tok_s(won, cycle_ms)
    return msgspec.structs.replace(
        known,
        break_even_accept_len=needed,
        ceiling_tok_s=None if known.depth is None else ceiling_tok_s(known.depth, cycle_ms),
        speed_tok_s=speed,
        speedup=None if speed is None or base_tok_s is None else guard.result("speedup", speed / base_tok_s),
        margin=None if won is None or needed is None else won - needed,
    )


def _goals(
    known: rig.Targets, cycle_ms: float, goals_tok_s: Iterable[float], verify_ms: float | None, why: list[str]
) -> tuple[rig.Goal, ...]:
    """Break-even, then each goal once, in the order given."""
    other_ms = None if verify_ms is None or not 0 <= verify_ms <= cycle_ms else cycle_ms - verify_ms
    wanted = dict.fromkeys(goals_tok_s, "")
    if known.baseline.tok_s is not None:
        wanted = {known.baseline.tok_s: BREAK_EVEN} | {k: v for k, v in wanted.items() if k != known.baseline.tok_s}
    found = []
    for tok_s, label in wanted.items():
        try:
            found.append(
                goal(tok_s, cycle_ms, known.depth, accept_len=known.accept_len, other_ms=other_ms, label=label)
            )
        except guard.NumberError as error:
            why.append(str(error))
    return tuple(found)


def _judge(known: rig.Targets, bounds: tuple[float, float] | None, why: list[str]) -> tuple[rig.Verdict, str]:
    """The verdict and its reason in one line."""
    needed, won, base_tok_s = known.break_even_accept_len, known.accept_len, known.baseline.tok_s
    stale = (
        f"; the baseline is stale{': ' + known.baseline.note if known.baseline.note else ''}"
        if known.baseline.stale
        else ""
    )
    if known.depth == 0:
        return rig.Verdict.UNCLEAR, "speculation is off (depth 0)"
    if known.ceiling_tok_s is not None and base_tok_s is not None and guard.exceeds(base_tok_s, known.ceiling_tok_s):
        ceiling = f"the ceiling at depth {known.depth} is {known.ceiling_tok_s:.1f} tok/s"
        return rig.Verdict.LOSES, f"{ceiling}, below the baseline {base_tok_s:g}: no drafter can win here{stale}"
    if needed is None or won is None:
        return rig.Verdict.UNCLEAR, "; ".join(why)
    if bounds is not None and bounds[0] <= needed <= bounds[1]:
        between = f"accept_len is between {bounds[0]:.2f} and {bounds[1]:.2f}"
        return rig.Verdict.UNCLEAR, f"{between}, and break-even {needed:.2f} lies in between{stale}"
    if guard.exceeds(won, needed):
        return rig.Verdict.PAYS, f"accept_len {won:.2f} is {won - needed:.2f} above break-even {needed:.2f}{stale}"
    if guard.exceeds(needed, won):
        return rig.Verdict.LOSES, f"accept_len {won:.2f} is {needed - won:.2f} below break-even {needed:.2f}{stale}"
    return rig.Verdict.UNCLEAR, f"accept_len {won:.2f} is break-even itself{stale}"
