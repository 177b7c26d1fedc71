"""How long an operation will take, from what the same took on this rig before."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from console import rig
from console.agent.record import Start
from console.agent.stopping import STEPS

USED = 5
"""The newest ones."""


class Forecast(NamedTuple):
    """Seconds and what they rest on; ``None`` without anything to rest on."""

    seconds: float | None = None
    rests_on: str = ""


def start_s(starts: Iterable[Start]) -> float | None:
    """Median of the newest good starts."""
    seconds = [start.seconds for start in starts][:USED]
    return statistics.median(seconds) if seconds else None


def stop_s(operations: Iterable[Mapping[str, Any]]) -> float | None:
    """Median of what ending the engine took, whatever it was ended for; ``operations`` oldest first."""
    totals = []
    for operation in operations:
        taken = [step.get("seconds") or 0.0 for step in operation.get("steps", ()) if step.get("name") in STEPS]
        if taken:
            totals.append(sum(taken))
    return statistics.median(totals[-USED:]) if totals else None


def live_s(operations: Iterable[Mapping[str, Any]], kind: str) -> Forecast:
    """Median of earlier live changes of this kind."""
    taken = [
        operation["ended_at_s"] - operation["started_at_s"]
        for operation in operations
        if operation.get("kind") == kind
        and operation.get("path") == "live"
        and operation.get("state") == rig.OperationState.DONE.value
        and "ended_at_s" in operation
        and "started_at_s" in operation
    ][-USED:]
    if not taken:
        return Forecast()
    return Forecast(statistics.median(taken), f"{len(taken)} earlier live change{'' if len(taken) == 1 else 's'}")


def restart(starts: list[Start], operations: list[dict[str, Any]], *, with_stop: bool) -> Forecast:
    """A start, with the stop before it where there is something to stop."""
    seconds = start_s(starts)
    if seconds is None:
        return Forecast()
    count = min(len(starts), USED)
    rests_on = f"{count} earlier start{'' if count == 1 else 's'} of this profile"
    stopping = stop_s(operations) if with_stop else None
    return Forecast(seconds + (stopping or 0.0), rests_on)
