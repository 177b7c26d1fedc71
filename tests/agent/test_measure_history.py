"""The ring of the graphs, and the fingerprint of a baseline."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console import rig
from console.agent.fingerprint import fingerprint, is_stale, launcher_environment, parts
from console.agent.history import Ring

FIELDS = ("cycle_ms", "draft_ms", "verify_ms", "accept_len", "tok_s")


def add(ring, at_s, cycle=None, accept_len=None, *, stale=False):
    ring.add(
        at_s,
        rig.Cycle(total_ms=rig.Figure(cycle, stale=stale)),
        rig.Acceptance(accept_len=rig.Figure(accept_len)),
        rig.Load(),
    )


def test_a_point_a_second_and_gaps_where_nothing_was_measured():
    ring = Ring(points=10)
    add(ring, 100.2, 30.0)
    add(ring, 100.7, 31.0)  # the same second: the first value stands
    add(ring, 103.1, 32.0)
    assert ring.history().cycle_ms == (30.0, None, None, 32.0)
    add(ring, 104.0, 33.0, stale=True)
    add(ring, 104.6, 34.0)  # fills what was missing in this second
    assert ring.history().cycle_ms[-2:] == (32.0, 34.0)


def test_the_graph_goes_on_after_a_clock_was_set_back():
    ring = Ring(points=10)
    add(ring, 5000.0, 30.0)
    add(ring, 5001.0, 31.0)
    add(ring, 100.0, 32.0)
    add(ring, 101.0, 33.0)
    assert ring.history().cycle_ms == (30.0, 31.0, 32.0, 33.0)


def test_no_more_points_than_asked():
    ring = Ring(points=3)
    for second in range(100):
        add(ring, float(second), float(second))
    assert ring.history().cycle_ms == (97.0, 98.0, 99.0)
    add(ring, 1e9, 1.0)
    assert ring.history().cycle_ms == (None, None, 1.0)


def test_time_that_goes_back_changes_nothing_that_was_measured():
    ring = Ring()
    add(ring, 100.0, 30.0)
    add(ring, 99.0, 99.0)
    assert ring.history().cycle_ms == (30.0,)
    ring.clear()
    assert ring.history() == rig.History()


@given(st.lists(st.tuples(st.floats(0, 1e6), st.none() | st.floats(1, 100)), max_size=50))
def test_columns_are_always_of_one_length(points):
    ring = Ring(points=20)
    for at_s, value in points:
        add(ring, at_s, value, value)
    lengths = {len(getattr(ring.history(), name)) for name in FIELDS}
    assert len(lengths) == 1
    assert lengths.pop() <= 20


def found(**changes):
    base = {
        "driver": "580.82.07",
        "gpus": [rig.Gpu(index, name="NVIDIA H200") for index in range(8)],
        "sglang": "0.5.23",
        "arguments": {"tp_size": 8, "attention_backend": "fa3", "random_seed": 1, "port": 30000, "quantization": None},
        "environment": {"NCCL_P2P_LEVEL": "SYS", "HOME": "/x", "SGLANG_CONSOLE_PROBE_DIR": "/y", "SGLANG_RUN_ID": "1"},
    }
    return parts(**(base | changes))


def test_what_a_fingerprint_is_made_of():
    assert found() == {
        "driver": "580.82.07",
        "GPUs": "8 x NVIDIA H200",
        "SGLang": "0.5.23",
        "tp_size": "8",
        "attention_backend": "fa3",
        "NCCL_P2P_LEVEL": "SYS",
    }
    assert len(fingerprint(found())) == 12


@pytest.mark.parametrize(
    "changes",
    [
        {"driver": "590.1"},
        {"gpus": [rig.Gpu(0, name="NVIDIA H200")]},
        {"gpus": [rig.Gpu(index, name="NVIDIA H100") for index in range(8)]},
        {"sglang": "0.5.24"},
        {"arguments": {"tp_size": 4, "attention_backend": "fa3"}},
        {"arguments": {"tp_size": 8}},
        {"environment": {}},
        {"environment": {"NCCL_P2P_LEVEL": "NVL"}},
    ],
)
def test_each_part_changes_it(changes):
    assert fingerprint(found(**changes)) != fingerprint(found())


@pytest.mark.parametrize(
    "changes",
    [
        {"arguments": {"tp_size": 8, "attention_backend": "fa3", "random_seed": 2, "port": 1}},
        {"environment": {"NCCL_P2P_LEVEL": "SYS", "SGLANG_RUN_ID": "2", "CUDA_VISIBLE_DEVICES": "0"}},
        {"gpus": [rig.Gpu(index, name="NVIDIA H200", util_pct=5.0) for index in range(8)]},
    ],
)
def test_what_has_no_effect_on_speed_does_not(changes):
    assert fingerprint(found(**changes)) == fingerprint(found())


def test_a_baseline_without_a_fingerprint_is_not_called_stale():
    assert [is_stale("a", "b"), is_stale("a", "a"), is_stale("", "b"), is_stale("a", "")] == [True, False, False, False]


def test_the_launchers_environment_holds_no_secret(monkeypatch, tmp_path):
    import subprocess
    import sys

    environment = {**os.environ, "NCCL_DEBUG": "INFO", "SGLANG_API_KEY": "hunter2", "OTHER": "1"}
    code = "print('up', flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        child.stdout.readline()
        read = launcher_environment(child.pid)
    finally:
        child.communicate(b"\n")
    assert read["NCCL_DEBUG"] == "INFO"
    assert "OTHER" not in read
    assert "hunter2" not in str(read)
    assert launcher_environment(2**22 - 1) == {}
