"""The wall clock jumps. A machine's clock is not a suite's to set: the measuring half runs in this process with a clock that is
given to it, on the living simulated engine; the engine itself keeps its time."""

from __future__ import annotations

import asyncio
import random
import time

from console import rig
from console.agent import record
from console.agent.handle import Handle
from console.agent.measure import Measure
from console.paths import RigPaths
from console.simulate.gpus import SimulatedGpus
from tests.faults.kinds import Family, Kind, Outcome, check
from tests.faults.rig import FaultRig, simulated


class Clock:
    """Unix seconds that may be moved."""

    def __init__(self) -> None:
        self.offset_s = 0.0

    def __call__(self) -> float:
        return time.time() + self.offset_s


def jumps(direction: int):
    """A round of a jump of an hour to thirty days, forward or back."""

    def round_(on: FaultRig, chance: random.Random) -> Outcome:
        on.up(on.profile("clock", "--sim-no-probe"))
        jump_s = direction * chance.choice((60.0, 3600.0, 86400.0, 30 * 86400.0 - 100.0))
        return asyncio.run(_jump(on, jump_s))

    return round_


async def _jump(on: FaultRig, jump_s: float) -> Outcome:
    clock = Clock()
    paths = RigPaths(f"{on.name}-measure")
    paths.make()
    cards = SimulatedGpus(on.paths.probe / "simulated-engine.json", clock=clock)
    measure = Measure(paths, cards, simulated=True, clock=clock)
    await measure.start()
    try:
        engine = (await asyncio.to_thread(on.snapshot)).engine
        measure.engine_changed(Handle(engine.url, "", "", engine.pid, None, clock()))
        await _fresh(measure, engine, clock, 0.0)
        at_s = time.time()
        clock.offset_s = jump_s
        noticed_s = await _fresh(measure, engine, clock, at_s + jump_s)
        deadline = time.monotonic() + 5.0
        while not _recorded(paths, at_s + jump_s):
            check(time.monotonic() < deadline, "samples are recorded after the jump")
            await _look(measure, engine)
    finally:
        await measure.stop()
    return Outcome(noticed_s)


def _recorded(paths: RigPaths, at_s: float) -> bool:
    return bool(record.read_samples(paths.history, at_s, at_s + 60))


async def _look(measure: Measure, engine: rig.Engine) -> rig.Snapshot:
    await asyncio.sleep(0.1)
    return measure.snapshot(engine, None, (), ())


async def _fresh(measure: Measure, engine: rig.Engine, clock: Clock, since_s: float) -> float:
    """Seconds until figures of after a moment are shown, none of them stale."""
    begun = time.monotonic()
    while True:
        tok_s = (await _look(measure, engine)).load.tok_s
        at_s = tok_s.at_s or 0.0
        if tok_s.value and not tok_s.stale and since_s <= at_s <= clock() + 1:
            return time.monotonic() - begun
        check(time.monotonic() - begun < 10.0, f"figures are fresh again: {tok_s}")


FAMILY = Family(
    "clock",
    simulated,
    (
        Kind("clock jumps forward (injected)", 6, "until fresh figures are shown", jumps(+1)),
        Kind("clock jumps back (injected)", 6, "until fresh figures are shown", jumps(-1)),
    ),
)
