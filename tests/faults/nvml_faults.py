"""NVML fails at the start, loses a card, answers codes nobody knows, or hangs - the real binding on the library of tests/fake_nvml."""

from __future__ import annotations

import contextlib
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from console import rig
from tests.fake_nvml import build
from tests.faults.kinds import Family, Kind, NotPossibleError, Outcome, check
from tests.faults.rig import FaultRig, until

DRIVER_NOT_LOADED, GPU_IS_LOST, UNKNOWN, NOBODYS = 9, 15, 999, 4242


@contextlib.contextmanager
def on_fake_nvml(name: str, folder: Path) -> Iterator[FaultRig]:
    """A rig without an engine whose driver is the fake one."""
    if shutil.which("gcc") is not None:
        build(folder)
    made = FaultRig(name, folder, simulated=False, env={"LD_LIBRARY_PATH": str(folder)})
    try:
        yield made
    finally:
        made.end()


def _begin(on: FaultRig, **env: str) -> float:
    """Start an agent on a driver with a fault; the moment before, by the monotonic clock."""
    if not (on.folder / "libnvidia-ml.so.1").exists():
        raise NotPossibleError("the fake NVML library needs gcc")
    if on.agent_pid is not None:
        on.kill_agent()
    begun = time.monotonic()
    on.start_agent(**env)
    return begun


def fails_at_start(on: FaultRig, chance: random.Random) -> Outcome:
    """nvmlInit fails: no cards, and why; the agent serves."""
    code = chance.choice((DRIVER_NOT_LOADED, 18, UNKNOWN))
    begun = _begin(on, FAKE_NVML_INIT=str(code))
    until(lambda: "have not been read" not in _note(on) and _note(on), "the driver's reason", 6.0)
    noticed_s = time.monotonic() - begun
    check(not on.snapshot().gpus, "no card is shown")
    return Outcome(noticed_s)


def lost_after_ten(on: FaultRig, chance: random.Random) -> Outcome:
    """A card is lost after ten polls: it alone is shown as lost."""
    card = chance.randrange(8)
    begun = _begin(on, FAKE_NVML_FAULTS=f"*:{card}:{GPU_IS_LOST}:10")
    until(lambda: len(on.snapshot().gpus) == 8, "eight cards", 6.0)
    until(lambda: on.snapshot().gpus[card].state == "lost", "the card is shown as lost", 15.0)
    noticed_s = time.monotonic() - begun
    check([gpu.index for gpu in on.snapshot().gpus if gpu.state != "ok"] == [card], "no other is")
    return Outcome(noticed_s)


def garbage(on: FaultRig, chance: random.Random) -> Outcome:
    """Every call of one card answers a code that nobody knows: that card says so, the others have figures."""
    card = chance.randrange(8)
    begun = _begin(on, FAKE_NVML_FAULTS=f"*:{card}:{chance.choice((UNKNOWN, NOBODYS))}:5")
    until(lambda: len(on.snapshot().gpus) == 8, "eight cards", 6.0)

    def told() -> bool:
        gpu = on.snapshot().gpus[card]
        return gpu.state != "ok" or bool(gpu.missing)

    until(told, "the card's cells say why they are empty", 15.0)
    noticed_s = time.monotonic() - begun
    others = [gpu for gpu in on.snapshot().gpus if gpu.index != card]
    check(all(gpu.power_w is not None and gpu.state == "ok" for gpu in others), "the others have figures")
    return Outcome(noticed_s)


def hangs(on: FaultRig, chance: random.Random) -> Outcome:
    """A call does not come back for a minute: the agent answers, and says what it waits for."""
    begun = _begin(on, FAKE_NVML_FAULTS=f"*:{chance.randrange(8)}:0:20:60000")
    until(lambda: "has not answered" in _note(on), "that NVML hangs", 15.0)
    noticed_s = time.monotonic() - begun
    asked = time.monotonic()
    on.client.ping()
    check(time.monotonic() - asked < 1.0, "the agent answers at once")
    check(on.state is rig.EngineState.NONE, "and knows its engine")
    return Outcome(noticed_s)


def _note(on: FaultRig) -> str:
    return on.snapshot().gpu_note


FAMILY = Family(
    "nvml",
    on_fake_nvml,
    (
        Kind("NVML fails at its start", 8, "from the agent's start to the reason", fails_at_start),
        Kind("NVML loses a GPU after 10 calls", 8, "from the agent's start to LOST", lost_after_ten),
        Kind("NVML answers unknown codes", 8, "from the agent's start to the reason", garbage),
        Kind("NVML hangs", 4, "from the agent's start to the hang told", hangs),
    ),
)
