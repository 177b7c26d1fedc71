"""The probe and the cards answer garbage or nothing: only those figures go."""

from __future__ import annotations

import random
import time

import zmq

from console import rig
from tests.faults.kinds import Family, Kind, Outcome, check
from tests.faults.rig import FaultRig, simulated, until


def _answers_soon(on: FaultRig) -> None:
    begun = time.monotonic()
    on.client.ping()
    check(time.monotonic() - begun < 2.0, "the agent answers at once")


def lost_gpu(on: FaultRig, chance: random.Random) -> Outcome:
    """One card falls off the bus: it is shown as lost with its Xid, the others keep their figures; then it is back."""
    on.up()
    index = chance.randrange(8)
    on.sim_fault("lost_gpu", index)
    try:
        noticed_s = until(lambda: on.snapshot().gpus[index].state == "lost", "the card is shown as lost", 6.0)
        gpus = on.snapshot().gpus
        check(all(gpu.state == "ok" for gpu in gpus if gpu.index != index), "the others are not")
        check(all(gpu.power_w is not None for gpu in gpus if gpu.index != index), "the others have figures")
        until(lambda: any("GPU" in alarm.text for alarm in on.snapshot().alarms), "an alarm names it", 4.0)
    finally:
        on.sim_fault("lost_gpu", clear=True)
    until(lambda: on.snapshot().gpus[index].state == "ok", "the card is back", 6.0)
    return Outcome(noticed_s)


def probe_garbage(on: FaultRig, chance: random.Random) -> Outcome:
    """Bytes that are no message, on a socket and in a file of the feed: passed over, good ones are still taken."""
    on.up()
    until(lambda: on.snapshot().probe.present, "the probe is heard", 10.0)
    bad = on.paths.probe / "probe-7.json"
    context = zmq.Context()
    socket = context.socket(zmq.PUB)
    path = on.paths.probe / "probe-6.sock"
    begun = time.monotonic()
    try:
        socket.bind(f"ipc://{path}")
        bad.write_bytes(
            chance.choice((b"\xff\xfe{", b"{" * 3000, b'{"rank": "x"}', b"[]", b"", b'{"schema":1,"rank":7'))
        )
        for _ in range(10):
            socket.send(chance.randbytes(chance.choice((0, 1, 64, 5000))))
            time.sleep(0.05)
        at_s = time.time()
        until(lambda: _fresh_cycle_s(on) > at_s, "figures go on", 6.0)
        check(on.snapshot().probe.present, "the probe is still heard")
        _answers_soon(on)
    finally:
        bad.unlink(missing_ok=True)
        context.destroy(linger=0)
        path.unlink(missing_ok=True)
    return Outcome(time.monotonic() - begun)


def _fresh_cycle_s(on: FaultRig) -> float:
    return on.snapshot().cycle.total_ms.at_s or 0.0


def probe_silent(on: FaultRig, _chance: random.Random) -> Outcome:
    """The feed stops with the engine: the agent says since when the probe is silent, and takes it up again."""
    on.up()
    until(lambda: on.snapshot().probe.present, "the probe is heard", 10.0)
    on.sim_fault("hang")
    try:
        noticed_s = until(lambda: "silent" in on.snapshot().probe.why, "the silence is told", 12.0)
    finally:
        on.sim_fault("hang", clear=True)
    until(lambda: on.snapshot().probe.present, "the probe is heard again", 10.0)
    until(on.is_ready, "the engine is ready", 10.0)
    return Outcome(noticed_s)


def gpu_file_garbage(on: FaultRig, chance: random.Random) -> Outcome:
    """What the simulated cards read is overwritten with bytes again and again: they idle, and are back after."""
    on.up()
    path = on.paths.probe / "simulated-engine.json"
    until(lambda: any(gpu.processes for gpu in on.snapshot().gpus), "the engine's memory is shown", 6.0)

    def idle() -> bool:
        path.write_bytes(chance.randbytes(200))
        return not any(gpu.processes for gpu in on.snapshot().gpus)

    until(idle, "the cards cannot tell the engine's memory", 6.0)
    check(len(on.snapshot().gpus) == 8, "eight cards are shown")
    begun = time.monotonic()
    until(lambda: any(gpu.processes for gpu in on.snapshot().gpus), "the engine's memory is shown again", 6.0)
    check(on.state is rig.EngineState.READY, "the engine is ready")
    return Outcome(time.monotonic() - begun)


FAMILY = Family(
    "probe",
    simulated,
    (
        Kind("one GPU lost (simulated)", 8, "until it is shown as lost", lost_gpu),
        Kind("GPU readings garbage (simulated)", 8, "until they are right again", gpu_file_garbage),
        Kind("probe messages garbage", 8, "until newer figures are shown", probe_garbage),
        Kind("probe silent", 4, "until the silence is told", probe_silent),
    ),
    steady=True,
)
