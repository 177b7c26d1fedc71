"""The real engine on several tensor-parallel ranks: every rank is seen, none is left."""

from __future__ import annotations

import time

import pytest

from console.rig import EngineState
from tests.real import facts
from tests.real.load import Load

pytestmark = pytest.mark.real


@pytest.mark.parametrize("tp", [2, pytest.param(8, marks=pytest.mark.long)])
def test_all_ranks_are_seen_and_stopped(fresh_rig, tp):
    rig = fresh_rig(tp)
    engine = rig.start().engine
    assert engine.tp == tp
    ranks = sorted(process.rank for process in engine.processes if process.role == "scheduler")
    assert ranks == list(range(tp))
    with Load(rig.url, rig.places.checkpoints, clients=1, tokens=24) as load:
        deadline = time.monotonic() + 240
        while load.result.requests < 2 and time.monotonic() < deadline:
            time.sleep(1)
        snapshot = rig.status()
        load.stop(120)
    assert load.result.requests >= 2
    assert not load.result.failed
    assert load.result.wrong == 0
    assert snapshot.acceptance.accept_len.value is not None
    assert {line.split(" ")[2].rstrip("]") for line in rig.log().splitlines() if "Load weight begin" in line} == {
        f"TP{rank}" for rank in range(tp)
    }
    pids = [process.pid for process in rig.status().engine.processes]
    rig.must("stop")
    snapshot = rig.wait(lambda s: s.engine.state is EngineState.STOPPED, 90, "stopped")
    assert snapshot.engine.exit_code == 0
    assert not facts.gone(pids, 30)
    assert facts.port_is_free(rig.port)
