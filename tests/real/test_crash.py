"""The real engine killed: within two seconds the console says so and why, and nothing is left."""

from __future__ import annotations

import os
import signal
import time

import pytest

from console.rig import EngineState
from tests.real import facts

pytestmark = pytest.mark.real


def test_kill_of_the_launcher(fresh_rig):
    rig = fresh_rig()
    engine = rig.start().engine
    os.kill(engine.pid, signal.SIGKILL)
    killed = time.monotonic()
    snapshot = rig.wait(lambda s: s.engine.state is EngineState.DEAD, 10, "dead")
    assert time.monotonic() - killed < 4  # two seconds to notice, one command's start to ask
    assert snapshot.engine.exit_code == -9
    assert snapshot.engine.failure is not None
    assert snapshot.engine.failure.message
    assert not facts.gone([process.pid for process in engine.processes])
    assert facts.port_is_free(rig.port)


def test_kill_of_the_scheduler(fresh_rig):
    rig = fresh_rig()
    engine = rig.start().engine
    (scheduler,) = [process.pid for process in engine.processes if process.role == "scheduler"]
    os.kill(scheduler, signal.SIGKILL)
    snapshot = rig.wait(lambda s: s.engine.state is EngineState.DEAD, 30, "dead")
    assert snapshot.engine.exit_code == -9
    assert snapshot.engine.failure is not None
    assert "scheduler" in (snapshot.engine.failure.message + snapshot.engine.failure.kind).lower()
    assert not facts.gone([process.pid for process in engine.processes])


def test_a_missing_drafter_is_said_in_one_line(fresh_rig):
    rig = fresh_rig()
    text = rig.profile.read_text().replace("drafter-a", "no-such-drafter")
    rig.profile.write_text(text)
    done = rig.console("run", str(rig.profile), timeout_s=180)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "no-such-drafter" in done.stderr + done.stdout
