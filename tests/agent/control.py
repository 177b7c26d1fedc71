"""A rig whose engine is :mod:`tests.agent.fake_engine` and whose measuring half only keeps what it is told."""

import asyncio
import contextlib
import json
import sys
import time
from pathlib import Path

from console import rig
from console.agent import identity
from console.agent.daemon import Daemon
from console.agent.prepare import Preparer
from console.agent.stopping import Patience
from console.engine.locate import Installation
from console.paths import RigPaths
from profiles.schema import EngineSection, Environment, Guard, Profile, Speculation
from tests.agent.fake_engine import free_port

ROOT = str(Path(__file__).parents[2])
QUICK = Patience(poll_s=0.02, leftovers_s=0.3, kill_s=3.0, gpu_s=0.3, port_s=1.0, settle_s=0.0)


class KeptMeasure:
    """Everything :class:`console.agent.handle.Measured` asks for, in memory."""

    def __init__(self):
        self.handles, self.batches, self.operations, self.events, self.start_list = [], [], {}, [], []
        self.held = {}
        self.reported = {}
        self.http_answered_at_s = None
        self.http_error = ""

    def engine_changed(self, handle):
        self.handles.append(handle)

    def log_batch(self, event):
        self.batches.append(event)

    def gpu_pids(self):
        return dict(self.held)

    def snapshot(self, engine, operation, events, log_tail):
        return rig.Snapshot(
            at_s=time.time(), rig="test", engine=engine, operation=operation, events=events, log_tail=log_tail
        )

    def record_operation(self, operation):
        self.operations[operation.id] = operation

    def record_event(self, event):
        self.events.append(event)

    def record_start(self, start):
        self.start_list.insert(0, start)

    def starts(self, profile):
        return [start for start in self.start_list if start.ready and start.profile == profile]

    fingerprint = "0123456789ab"

    def stage_totals(self):
        return {}

    def environments(self):
        return {None: {}, **self.reported}

    def probe_status(self):
        return rig.ProbeStatus(depth_why="no probe in this engine", swap_why="no probe in this engine")

    def probe_depths(self):
        return None, None, ()

    def profile_changed(self, profile):
        self.profile = profile

    def history(self, kind, since, until):
        import msgspec

        return [msgspec.to_builtins(entry) for entry in self.operations.values()] if kind == "operations" else []


class Live:
    """The probe's controls, obedient."""

    def __init__(self, steps=(0, 1, 2, 3), deaf=False):
        self.candidate_steps = steps
        self.now, self.pinned, self.deaf = 2, None, deaf

    def capabilities(self):
        return rig.ProbeStatus(present=True, why="", depth_live=True, swap_live=True)

    def depth(self):
        return self.now, self.pinned

    async def set_depth(self, depth):
        if not self.deaf:
            self.now, self.pinned = (2 if depth is None else depth), depth
        return "ok"

    async def swap(self, path):
        return f"swapped to {path}"


def profile(name="fake", *, fake=None, port=None, drafter="", steps=2, stop_timeout_s=5.0, **more):
    spec = Speculation(algorithm="EAGLE3", drafter=drafter or "org/a", steps=steps, topk=1) if steps else Speculation()
    return Profile(
        name=name,
        engine=EngineSection(
            module="tests.agent.fake_engine",
            model="model",
            port=port or free_port(),
            pythonpath=(ROOT,),
            probe=False,
            env=Environment(set={"FAKE": json.dumps(fake or {})}),
            stop_timeout_s=stop_timeout_s,
            **more,
        ),
        speculation=spec,
        guard=Guard(window_s=0.4),
    )


class Control:
    """One daemon, driven in process."""

    def __init__(self, tmp_path, *, live=None, patience=QUICK):
        self.paths = RigPaths("test")
        self.paths.make()
        self.profiles = {}
        self.measure = KeptMeasure()
        preparer = Preparer(self.paths, find=lambda _profile: Installation(sys.executable, (0, 5, 23), "0.5.23", None))
        self.daemon = Daemon(
            self.paths, self.measure, load=self.profiles.__getitem__, preparer=preparer, patience=patience, live=live
        )
        self.supervisor, self.operator = self.daemon.supervisor, self.daemon.operator

    def add(self, found):
        self.profiles[found.name] = found
        return found

    async def do(self, kind, **args):
        """Begin an operation and wait for its end."""
        await self.operator.start(kind, args, "ann@pts/1")
        return await self.operator.wait()

    async def up(self, **how):
        """A fake engine that is ready."""
        found = self.add(profile(**how))
        done = await self.do("launch", profile=found.name)
        assert done.state is rig.OperationState.DONE, done.message
        return found

    @property
    def pid(self):
        return self.supervisor.record.identity.pid

    @property
    def engine(self):
        return self.supervisor.engine()

    async def until(self, condition, timeout_s=5.0):
        async with asyncio.timeout(timeout_s):
            while not condition():
                await asyncio.sleep(0.01)

    async def close(self):
        """End what is left, whatever the test did."""
        await self.operator.close()
        record = self.supervisor.record
        await self.supervisor.close()
        if record is not None and record.identity is not None:
            import signal

            from console.agent import tree

            for one in tree.members(record.identity, record.members):
                identity.send(one, signal.SIGKILL)


@contextlib.asynccontextmanager
async def controlled(tmp_path, **how):
    made = Control(tmp_path, **how)
    try:
        yield made
    finally:
        await made.close()
