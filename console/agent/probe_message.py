"""Readings between two messages of the probe's feed (docs/architecture.md)."""

from __future__ import annotations

from collections.abc import Sequence

from console import rig
from console.agent.readings import RankWindow, Window, finite
from console.engine.feed import Message, StageCounter


def setting(message: Message) -> tuple[int, int | None, str]:
    """What figures must not be mixed over: the process, its depth, its drafter."""
    return message.pid, message.depth, message.drafter.checksum or message.drafter.path


def rounds_done(message: Message) -> int:
    """Grows with every round, by whichever hook is on."""
    cycle = message.stages.get("cycle")
    return message.acceptance.steps + (cycle.count if cycle is not None else 0)


def stage_between(old: Message, new: Message, name: str, at_s: float) -> rig.Stage | None:
    """Mean of a stage over the rounds between two messages, with the percentiles of the rank's own window."""
    now, was = new.stages.get(name), old.stages.get(name, StageCounter())
    if now is None or now.count <= was.count or now.sum_ms < was.sum_ms:
        return None
    mean = finite((now.sum_ms - was.sum_ms) / (now.count - was.count))
    if mean is None:
        return None
    return rig.Stage(
        mean_ms=mean,
        p50_ms=finite(now.window.p50_ms),
        p95_ms=finite(now.window.p95_ms),
        max_ms=finite(now.window.max_ms),
        rounds=now.count - was.count,
        source=rig.Source.PROBE,
        at_s=at_s,
    )


def mean_between(old: Message, new: Message, name: str) -> float | None:
    """Mean milliseconds of a stage between two messages."""
    found = stage_between(old, new, name, new.at_s)
    return None if found is None else found.mean_ms


def positions_between(old: Sequence[int], new: Sequence[int]) -> tuple[int, ...]:
    """Differences by position; a position that is new counts from zero."""
    return tuple(count - (old[index] if index < len(old) else 0) for index, count in enumerate(new))


def window_between(
    recent: Message, older: Message, new: Message, ranks: Sequence[tuple[Message, Message]], at_s: float
) -> Window:
    """The readings of the leading rank.

    Args:
        recent: the leading rank's message a few seconds ago: times are taken from it on.
        older: the one some more seconds ago: acceptance needs more rounds to be sure of anything.
        new: its newest message.
        ranks: an old and the newest message of every rank.
        at_s: when the last round was seen.
    """
    now, was = new.acceptance, older.acceptance
    rounds, steps = now.rounds - was.rounds, now.steps - was.steps
    drafted, accepted = now.drafted - was.drafted, now.accepted - was.accepted
    counted = rounds > 0 and steps > 0 and accepted >= 0 and drafted >= 0
    seconds = new.at_s - recent.at_s
    yielded = (now.rounds + now.accepted) - (recent.acceptance.rounds + recent.acceptance.accepted)
    return Window(
        source=rig.Source.PROBE,
        at_s=at_s,
        cycle_ms=mean_between(recent, new, "cycle"),
        batch=rounds / steps if counted else None,
        accept_len=1 + accepted / rounds if counted else None,
        accept_rate=accepted / drafted if counted and drafted else None,
        tok_s=yielded / seconds if counted and seconds > 0 and yielded > 0 else None,
        depth=None if new.depth is None else float(new.depth),
        draft=stage_between(recent, new, "draft", at_s),
        verify=stage_between(recent, new, "verify", at_s),
        extend=stage_between(recent, new, "extend", at_s),
        ranks=tuple(
            RankWindow(
                after.rank,
                mean_between(before, after, "draft"),
                mean_between(before, after, "verify"),
                mean_between(before, after, "extend"),
            )
            for before, after in ranks
        ),
        rounds=rounds if counted else 0,
        drafted=drafted if counted else 0,
        accepted=accepted if counted else 0,
        tries=positions_between(was.tries, now.tries) if counted else (),
        hits=positions_between(was.hits, now.hits) if counted else (),
    )
