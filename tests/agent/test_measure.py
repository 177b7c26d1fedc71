"""The whole of measuring: GPUs, engine, log, journal, alarms, in one snapshot."""

import asyncio
import os
import time

import msgspec
import pytest

from console import rig
from console.agent.engine_feed import EngineFeed
from console.agent.gpus import open_source
from console.agent.measure import Measure
from console.agent.nvml import NvmlSource
from console.agent.record import Start, read_samples
from console.engine.batches import DecodeBatch
from console.engine.log import Kind, LogEvent
from console.paths import RigPaths
from profiles.schema import BaselineSection, Profile, TargetsSection
from tests.agent.test_measure_poll import FakeClient, wait_for

pytest_plugins = ("tests.fake_nvml",)

PROFILE = Profile(
    name="tiny", targets=TargetsSection(baseline=BaselineSection(tok_s=217.0, concurrency=16), goals_tok_s=(400.0,))
)
READY = rig.Engine(state=rig.EngineState.READY)


class Handle(msgspec.Struct):
    url: str = "http://127.0.0.1:1"
    api_key: str = ""
    admin_key: str = ""
    pid: int | None = None
    profile: Profile | None = PROFILE
    started_at: float | None = None


class Gpus:
    """Two cards; the first is held by this process."""

    lost = False

    def open(self):
        pass

    def read(self):
        held = (rig.GpuProcess(os.getpid(), 4 << 30),)
        cards = (rig.Gpu(0, uuid="GPU-0", name="H", processes=held), rig.Gpu(1, uuid="GPU-1", name="H"))
        if self.lost:
            cards = (cards[0], rig.Gpu(1, uuid="GPU-1", state="lost", note="LOST 12:04"))
        return cards, "", "580"

    def close(self):
        pass


@pytest.fixture
def paths(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLANG_CONSOLE_HOME", str(tmp_path))
    found = RigPaths("test")
    found.make()
    return found


@pytest.fixture
async def measure(paths, monkeypatch):
    monkeypatch.setattr("console.agent.poll.LOADS_PERIOD_S", 0.02)
    monkeypatch.setattr("console.agent.poll.METRICS_PERIOD_S", 0.05)
    monkeypatch.setattr("console.agent.measure.PROCESSES_PERIOD_S", 0.05)
    gpus = Gpus()
    made = Measure(paths, gpus, engine_feed=lambda handle: EngineFeed(handle, client=FakeClient()))
    made.gpus = gpus
    await made.start()
    await wait_for(lambda: made._sampler.latest()[0])
    yield made
    await made.stop()


def snap(measure, engine=READY, events=()):
    return measure.snapshot(engine, None, events, ("a line",))


async def test_without_an_engine_the_gpus_are_seen(measure):
    snapshot = snap(measure, rig.Engine())
    assert (snapshot.rig, snapshot.simulated, snapshot.driver, snapshot.seq) == ("test", False, "580", 1)
    assert [gpu.rank for gpu in snapshot.gpus] == [None, None]
    assert snapshot.cycle.total_ms == rig.Figure(why="no engine")
    assert (snapshot.agent.pid, snapshot.agent.journal_note) == (os.getpid(), "")
    assert snapshot.log_tail == ("a line",)
    assert measure.gpu_pids() == {os.getpid(): 4 << 30}
    assert measure.fingerprint == ""


async def test_an_engine_is_followed_and_forgotten(measure):
    measure.engine_changed(Handle(pid=os.getpid()))
    await wait_for(lambda: snap(measure).cycle.verify.mean_ms is not None)
    await wait_for(lambda: snap(measure).engine.version)
    await wait_for(lambda: snap(measure).engine.processes)
    snapshot = snap(measure)
    assert snapshot.engine.version == "0.5.17"
    assert (snapshot.engine.algorithm, snapshot.engine.depth_launch, snapshot.engine.tp) == ("EAGLE3", 5, 1)
    assert snapshot.cycle.total_ms.source is rig.Source.LOADS
    assert snapshot.load.running.value == 16
    assert snapshot.targets.baseline.tok_s == 217.0
    assert [goal.tok_s for goal in snapshot.targets.goals] == [217.0, 400.0]
    assert snapshot.engine.processes[0].pid == os.getpid()
    assert snapshot.gpus[0].processes[0].ours
    assert snapshot.gpus[0].rank == 0  # no scheduler title to go by: SGLang's own order
    assert snapshot.gpus[0].processes[0].name
    assert snapshot.history.cycle_ms[-1] == pytest.approx(10.2, abs=0.1)
    assert len(measure.fingerprint) == 12
    assert measure.fingerprint_parts()["GPUs"] == "2 x H"
    assert measure.http_error == ""
    assert measure.http_answered_at_s == pytest.approx(time.time(), abs=5)
    measure.engine_changed(None)
    snapshot = snap(measure, rig.Engine(state=rig.EngineState.STOPPED))
    assert snapshot.cycle.total_ms == rig.Figure(why="no engine")
    assert (snapshot.engine.version, snapshot.engine.processes) == ("", ())
    assert [gpu.rank for gpu in snapshot.gpus] == [None, None]
    await asyncio.sleep(0.05)
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith(("poll", "engine feed"))]


async def test_what_the_daemon_knows_is_not_overwritten(measure):
    measure.engine_changed(Handle())
    await wait_for(lambda: snap(measure).engine.version)
    engine = rig.Engine(state=rig.EngineState.READY, version="0.5.23", model="/mine", tp=8)
    found = snap(measure, engine).engine
    assert (found.version, found.model, found.tp, found.algorithm) == ("0.5.23", "/mine", 8, "EAGLE3")


async def test_log_lines_serve_where_nothing_else_does(measure):
    batch = DecodeBatch(time.time(), "TP0", 2, 0, 120.0, 2.4, 0.7, True, 0.1)
    measure.log_batch(LogEvent(Kind.DECODE, "", batch=batch))
    measure.log_batch(LogEvent(Kind.WARNING, "no batch"))
    snapshot = snap(measure)
    assert snapshot.cycle.total_ms.source is rig.Source.LOG
    assert snapshot.cycle.total_ms.value == pytest.approx(40.0)
    measure.engine_changed(None)
    assert snap(measure).cycle.total_ms.value is None


async def test_a_replayed_log_is_as_old_as_it_says(measure):
    measure.log_batch(DecodeBatch(time.time() - 3600, "TP0", 2, 0, 120.0, 2.4, 0.7, True, 0.1))
    figure = snap(measure).cycle.total_ms
    assert (figure.stale, figure.why) == (True, "no decode for 60 min")


async def test_alarms_become_events_and_history(measure):
    measure.gpus.lost = True
    await wait_for(lambda: snap(measure).alarms)
    own = rig.Event(time.time() + 100, "info", "later")
    snapshot = snap(measure, events=(own,))
    assert [alarm.id for alarm in snapshot.alarms] == ["gpu-lost-GPU-1"]
    assert [event.text for event in snapshot.events] == ["GPU 1: LOST 12:04", "later"]
    assert measure.acknowledge("gpu-lost-GPU-1", "ann")
    assert snap(measure).alarms[0].acknowledged_by == "ann"
    await wait_for(lambda: measure.history("events", 0.0, time.time() + 1))
    assert measure.history("events", 0.0, time.time() + 1)[0]["text"] == "GPU 1: LOST 12:04"


async def test_history_of_what_was_recorded(measure):
    measure.record_operation(rig.Operation("1", "depth", by="ann", started_at_s=time.time()))
    measure.record_event(rig.Event(time.time(), "info", "hello"))
    measure.record_start(Start(time.time(), "tiny", ready=True, seconds=60.0))
    await wait_for(lambda: measure.history("operations", 0.0, time.time() + 1))
    assert measure.history("operations", 0.0, time.time() + 1)[0]["by"] == "ann"
    await wait_for(lambda: measure.starts("tiny"))
    assert measure.starts("tiny")[0].seconds == 60.0


async def test_a_sample_a_second(paths):
    now = [1_800_000_000.0]
    measure = Measure(paths, Gpus(), clock=lambda: now[0])
    await measure.start()
    for _ in range(20):
        snap(measure)
        now[0] += 0.5
    await measure.stop()
    assert [entry.at_s - 1_800_000_000.0 for entry in read_samples(paths.history)] == [float(n) for n in range(10)]


async def test_starting_and_stopping_leaves_nothing(paths):
    before = {task.get_name() for task in asyncio.all_tasks()}
    measure = Measure(paths, Gpus(), engine_feed=lambda handle: EngineFeed(handle, client=FakeClient()))
    await measure.start()
    measure.engine_changed(Handle())
    measure.engine_changed(Handle())
    await asyncio.sleep(0.05)
    await measure.stop()
    assert {task.get_name() for task in asyncio.all_tasks()} == before


async def test_on_the_fake_driver(paths, fake_nvml):
    measure = Measure(paths, NvmlSource())
    await measure.start()
    await wait_for(lambda: len(snap(measure).gpus) == 8)
    assert snap(measure).driver == "580.82.07"
    await measure.stop()


def test_the_source_of_a_rig(paths):
    assert isinstance(open_source(simulated=False, rig_paths=paths), NvmlSource)
    simulated = open_source(simulated=True, rig_paths=paths)
    simulated.open()
    gpus, note, driver = simulated.read()
    assert len(gpus) == 8
    assert "SIMULATED" in note
    assert "SIMULATED" in driver
    simulated.close()
