"""The engine's routes answer garbage, too much, or without end: the figures that need them say why, the others go on.

The engine runs without a probe, so that the routes are all there is.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from console import rig
from tests.faults.kinds import Family, Kind, Outcome, check
from tests.faults.rig import FaultRig, simulated, until

MOST_GROWTH_BYTES = 250 << 20
"""What an answer without end may cost the agent at most: 64 MiB are read of it."""
TOLD_S = 20.0
BACK_S = 45.0
"""A route that failed is asked again after 10 to 30 s."""


@contextlib.contextmanager
def without_probe(name: str, folder: Path) -> Iterator[FaultRig]:
    """A simulated rig whose engines have no probe."""
    with simulated(name, folder) as made:
        made.engine_args = ("--sim-no-probe",)
        yield made


def _rss_bytes(on: FaultRig) -> int:
    status = Path(f"/proc/{on.agent.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def _stages_known(found: rig.Snapshot) -> bool:
    """Only /metrics tells them here."""
    verify = found.cycle.verify
    return verify.mean_ms is not None and not verify.stale and verify.source is rig.Source.METRICS


def _stages_say_why(found: rig.Snapshot) -> bool:
    verify = found.cycle.verify
    return (verify.stale or verify.mean_ms is None) and "metrics" in verify.why


def _loads_known(found: rig.Snapshot) -> bool:
    return found.load.running.source is rig.Source.LOADS and not found.load.running.stale


def _loads_replaced(found: rig.Snapshot) -> bool:
    """The next best source tells it, or its last value is told as old."""
    return found.load.running.source is not rig.Source.LOADS or found.load.running.stale


def route(fault: str, good: Callable[[rig.Snapshot], bool], bad: Callable[[rig.Snapshot], bool]):
    """A round in which one route answers wrongly."""

    def round_(on: FaultRig, _chance: random.Random) -> Outcome:
        on.up()
        until(lambda: good(on.snapshot()), "the figures are known", BACK_S, pause_s=0.1)
        before = _rss_bytes(on)
        on.sim_fault(fault)
        try:
            noticed_s = until(lambda: bad(on.snapshot()), f"that {fault} is told", TOLD_S, pause_s=0.05)
            begun = time.monotonic()
            on.client.ping()
            check(time.monotonic() - begun < 2.0, "the agent answers at once")
            check(on.is_ready(), "the engine is ready all the while")
            tok_s = on.snapshot().load.tok_s
            check(tok_s.value is not None and not tok_s.stale, "the throughput is known all the while")
            grown = _rss_bytes(on) - before
            check(grown < MOST_GROWTH_BYTES, f"the agent has grown by {grown >> 20} MiB only")
        finally:
            on.sim_fault(fault, clear=True)
        until(lambda: good(on.snapshot()), "the figures are known again", BACK_S, pause_s=0.1)
        return Outcome(noticed_s)

    return round_


OTHER = "until another source is shown"
WHY = "until the stages say why they are old"
FAMILY = Family(
    "routes",
    without_probe,
    (
        Kind("/v1/loads garbage", 12, OTHER, route("loads_garbage", _loads_known, _loads_replaced)),
        Kind("/metrics garbage", 3, WHY, route("metrics_garbage", _stages_known, _stages_say_why)),
        Kind("/metrics 64 MiB", 2, WHY, route("metrics_huge", _stages_known, _stages_say_why)),
        Kind("/metrics never ends", 2, WHY, route("metrics_endless", _stages_known, _stages_say_why)),
    ),
    steady=True,
)
