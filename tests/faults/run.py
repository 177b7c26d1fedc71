"""Runs families side by side, each on a rig of its own, within a time."""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

from console.agent.identity import Identity
from tests.faults import (
    agent_faults,
    clock_faults,
    console_faults,
    disk_faults,
    engine_faults,
    log_faults,
    nvml_faults,
    probe_faults,
    route_faults,
    start_faults,
    state_faults,
)
from tests.faults.kinds import Family, Kind, NotPossibleError, NotSurvivedError, Tally, check
from tests.faults.rig import FaultRig, lives

FAMILIES: tuple[Family, ...] = (
    disk_faults.FAMILY,
    route_faults.FAMILY,
    engine_faults.FAMILY,
    agent_faults.FAMILY,
    console_faults.FAMILY,
    start_faults.FAMILY,
    state_faults.FAMILY,
    nvml_faults.FAMILY,
    probe_faults.FAMILY,
    log_faults.FAMILY,
    clock_faults.FAMILY,
)
"""The longest first: they wait more than they work."""
MOST_GAP_S = 2.5
"""Between two samples, one a second, on a box with more rigs than cores."""


class Suite:
    """One run.

    Args:
        families: what is tried.
        rounds: in all; spread over the kinds as the default run has them, one at least.
        budget_s: no round begins after it.
        seed: of everything random.
        tell: called with a line for people.
    """

    def __init__(
        self, families: Iterable[Family], *, rounds: int, budget_s: float, seed: int, tell: Callable[[str], None]
    ) -> None:
        self._families = list(families)
        self._share = rounds / max(1, sum(kind.rounds for family in self._families for kind in family.kinds))
        self._deadline = time.monotonic() + budget_s
        self._seed = seed
        self._tell = tell
        self._lock = threading.Lock()
        self.tallies = {kind.name: Tally(kind) for family in self._families for kind in family.kinds}

    def run(self, folder: Path, lanes: int) -> None:
        """Try every family, ``lanes`` at a time; their processes are gone afterwards."""
        threads = [threading.Thread(target=self._lane, args=(folder,), name=f"lane {lane}") for lane in range(lanes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _lane(self, folder: Path) -> None:
        while True:
            with self._lock:
                if not self._families:
                    return
                family = self._families.pop(0)
            own = folder / family.name
            own.mkdir()
            try:
                with family.rig(f"f-{family.name}", own) as on:
                    self._family(family, on)
            except Exception:
                self._tell(f"{family.name}: the rig itself failed\n{traceback.format_exc()}")
                for kind in family.kinds:
                    self._note(self.tallies[kind.name], "the rig could not be made or ended")

    def _family(self, family: Family, on: FaultRig) -> None:
        chance = random.Random(f"{self._seed} {family.name}")
        for kind in family.kinds:
            for _ in range(max(1, round(kind.rounds * self._share))):
                if time.monotonic() > self._deadline or not self._round(kind, on, chance, steady=family.steady):
                    break

    def _round(self, kind: Kind, on: FaultRig, chance: random.Random, *, steady: bool) -> bool:
        """One round; False when another makes no sense."""
        tally = self.tallies[kind.name]
        try:
            before = _engine(on)
            if before is None and not kind.harms and on.simulated:
                before = on.up()
            begun_s = time.time()
            outcome = kind.round(on, chance)
            if steady and not kind.pauses:
                gap_s = on.longest_gap_s(begun_s, time.time())
                check(gap_s <= MOST_GAP_S, f"samples without a gap, the longest is {gap_s:.1f} s")
            if not kind.harms and before is not None and not lives(before):
                raise NotSurvivedError("the engine was harmed: it is not the same process any more")
        except NotPossibleError as error:
            tally.skipped = str(error)
            return False
        except Exception as error:
            tally.tried += 1
            self._note(tally, f"{type(error).__name__}: {error}")
            if not isinstance(error, AssertionError):
                self._tell(traceback.format_exc())
            on.repair()
        else:
            tally.tried += 1
            if outcome.noticed_s is not None:
                tally.noticed_s.append(outcome.noticed_s)
            if outcome.lost:
                tally.lost[outcome.lost] = tally.lost.get(outcome.lost, 0) + 1
        return True

    def _note(self, tally: Tally, failure: str) -> None:
        tally.failures.append(failure)
        self._tell(f"NOT SURVIVED: {tally.kind.name}: {failure}")


def _engine(on: FaultRig) -> Identity | None:
    """The engine's launcher if one runs; pid and start time are what it is known by."""
    if on.agent_pid is None or not on.snapshot().engine.pid:
        return None
    return on.engine
