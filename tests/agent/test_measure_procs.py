"""The process tree from /proc, and ranks on GPUs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console import rig
from console.agent.procs import ProcessTable, ranks_by_order, ranks_by_pid, role_of

FIXTURES = Path(__file__).parents[1] / "fixtures"


def write_proc(root, pid, ppid, cmdline, *, name="x", cpu=0, start=100, rss_pages=10):
    folder = root / str(pid)
    folder.mkdir(exist_ok=True)
    rest = ["S", ppid, *[0] * 9, cpu, 0, *[0] * 6, start, 0, rss_pages, *[0] * 5]
    (folder / "stat").write_text(f"{pid} ({name}) " + " ".join(map(str, rest)))
    (folder / "cmdline").write_text("\0".join(cmdline))


@pytest.mark.parametrize(
    ("file", "roles"),
    [
        ("h200-0.5.17/main/proctree-load.json", {"launcher": 1, "scheduler": 1, "detokenizer": 1, "helper": 18}),
        ("cpu-0.5.23/main/main/proctree-load.json", {"launcher": 1, "scheduler": 1, "detokenizer": 1, "helper": 1}),
    ],
)
def test_real_trees(tmp_path, file, roles):
    tree = json.loads((FIXTURES / file).read_text())
    for entry in tree:
        write_proc(tmp_path, entry["pid"], entry["ppid"], entry["cmdline"], name=entry["comm"])
    write_proc(tmp_path, 1, 0, ["init"])
    found = ProcessTable(tmp_path).tree(tree[0]["pid"])
    counts = {role: sum(entry.role == role for entry in found) for role in roles}
    assert counts == roles
    assert [entry.role for entry in found[:3]] == ["launcher", "scheduler", "detokenizer"]
    assert found[0].title.endswith("-m sglang.launch_server")
    assert (found[1].title, found[1].rank) == ("sglang::scheduler", 0)


def test_cpu_share_and_memory(tmp_path):
    now = [0.0]
    table = ProcessTable(tmp_path, monotonic=lambda: now[0])
    write_proc(tmp_path, 10, 1, ["python"], cpu=100, rss_pages=7)
    (first,) = table.tree(10)
    assert first.cpu_pct is None
    assert first.rss_bytes == 7 * os.sysconf("SC_PAGE_SIZE")
    now[0] = 2.0
    write_proc(tmp_path, 10, 1, ["python"], cpu=100 + os.sysconf("SC_CLK_TCK"))
    (second,) = table.tree(10)
    assert second.cpu_pct == pytest.approx(50.0)
    now[0] = 3.0
    write_proc(tmp_path, 10, 1, ["python"], cpu=5, start=999)  # the pid was reused
    (third,) = table.tree(10)
    assert third.cpu_pct is None


def test_only_new_processes_are_looked_at(tmp_path):
    now = [0.0]
    table = ProcessTable(tmp_path, monotonic=lambda: now[0])
    for pid in range(100, 400):
        write_proc(tmp_path, pid, 1, ["other"])
    write_proc(tmp_path, 10, 1, ["python"])
    table.tree(10)
    looked = []
    read = table._stat
    table._stat = lambda pid: looked.append(pid) or read(pid)
    write_proc(tmp_path, 500, 10, ["sglang::scheduler_TP3", ""])
    now[0] = 5.0
    found = table.tree(10)
    assert [entry.pid for entry in found] == [10, 500]
    assert found[1].rank == 3
    assert set(looked) == {10, 500}
    now[0] = 70.0
    looked.clear()
    table.tree(10)
    assert len(set(looked)) == 302


def test_a_process_that_is_gone_or_odd(tmp_path):
    table = ProcessTable(tmp_path)
    assert table.tree(10) == ()
    write_proc(tmp_path, 10, 1, ["python"])
    write_proc(tmp_path, 11, 10, ["evil\x1b[31m name"], name="a) (b")
    (tmp_path / "12").mkdir()
    (tmp_path / "12" / "stat").write_text("garbage")
    found = table.tree(10)
    assert [entry.pid for entry in found] == [10, 11]
    assert "\x1b" not in found[1].title
    assert ProcessTable(tmp_path / "none").tree(10) == ()


def test_the_real_proc():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        found = ProcessTable().tree(os.getpid())
        assert found[0].pid == os.getpid()
        assert child.pid in {entry.pid for entry in found}
        assert all(entry.rss_bytes is not None for entry in found)
        assert "python" in ProcessTable().name(child.pid)
    finally:
        child.communicate(b"\n")


@pytest.mark.parametrize(
    ("title", "role", "rank"),
    [
        ("sglang::scheduler", "scheduler", 0),
        ("sglang::scheduler_TP7", "scheduler", 7),
        ("sglang::scheduler_DP1_TP10_EP0", "scheduler", 10),
        ("sglang::scheduler_PP1_TP2", "scheduler", 2),
        ("sglang::detokenizer", "detokenizer", None),
        ("sglang::data_parallel_controller", "helper", None),
        ("python3 -m sglang.launch_server", "helper", None),
        ("", "helper", None),
    ],
)
def test_roles(title, role, rank):
    assert role_of(title, is_root=False) == (role, rank)


@given(st.text(max_size=80))
def test_any_title_has_a_role(title):
    role, rank = role_of(title, is_root=False)
    assert role in {"helper", "scheduler", "detokenizer"}
    assert (rank is None) == (role != "scheduler")


def gpu(index, pid=None, used=1):
    held = () if pid is None else (rig.GpuProcess(pid, used),)
    return rig.Gpu(index, uuid=f"GPU-{index}", processes=held)


def test_ranks_follow_the_pids_when_devices_are_reordered():
    """CUDA_VISIBLE_DEVICES=3,1: rank 0 runs on GPU 3."""
    processes = [rig.Process(100, "scheduler", rank=0), rig.Process(101, "scheduler", rank=1)]
    gpus = [gpu(0), gpu(1, 101), gpu(2, 999), gpu(3, 100)]
    assert ranks_by_pid(gpus, processes) == {"GPU-3": 0, "GPU-1": 1}
    assert ranks_by_order(gpus, tp=2, visible="3,1") == {"GPU-3": 0, "GPU-1": 1}


def test_the_rank_that_holds_most_counts():
    """Rank 0 leaves a small context on the GPUs of others."""
    processes = [rig.Process(100, "scheduler", rank=0), rig.Process(101, "scheduler", rank=1)]
    shared = rig.Gpu(1, uuid="GPU-1", processes=(rig.GpuProcess(100, 500 << 20), rig.GpuProcess(101, 100 << 30)))
    assert ranks_by_pid([shared], processes) == {"GPU-1": 1}


@pytest.mark.parametrize(
    ("visible", "tp", "first", "step", "ranks"),
    [
        (None, 2, 0, 1, {"GPU-0": 0, "GPU-1": 1}),
        (None, 2, 0, 2, {"GPU-0": 0, "GPU-2": 1}),
        (None, 2, 2, 1, {"GPU-2": 0, "GPU-3": 1}),
        ("2, 0", 2, 0, 1, {"GPU-2": 0, "GPU-0": 1}),
        ("GPU-3,GPU-1", 1, 0, 1, {"GPU-3": 0}),
        ("0,9,1", 2, 0, 1, {}),  # CUDA stops at 9
        ("", 1, 0, 1, {}),
        ("-1", 1, 0, 1, {}),
        ("GPU-", 1, 0, 1, {}),  # names four GPUs
        ("MIG-x", 1, 0, 1, {}),
        (None, 5, 0, 1, {}),
    ],
)
def test_ranks_by_order(visible, tp, first, step, ranks):
    gpus = [gpu(index) for index in range(4)]
    assert ranks_by_order(gpus, tp=tp, visible=visible, first=first, step=step) == ranks
