"""The environment matrix: differences in words, what SGLang changes itself, masking, unreadable files."""

from __future__ import annotations

import msgspec
import pytest

from console import environment
from console.agent import environments
from console.environment import matrix
from profiles.schema import EngineSection, Environment, Profile


def only(found, name):
    return next(variable for variable in found.variables if variable.name == name)


def test_a_worker_that_lacks_a_variable_is_named():
    workers = {rank: {"NCCL_P2P_LEVEL": "SYS"} for rank in range(8)}
    workers[3] = {}
    found = matrix(to_set={"NCCL_P2P_LEVEL": "SYS"}, launcher={"NCCL_P2P_LEVEL": "SYS"}, workers=workers)
    assert found.differences == ("worker 3 lacks NCCL_P2P_LEVEL",)
    workers[4], workers[5], workers[7] = {}, {}, {"NCCL_P2P_LEVEL": "PIX"}
    found = matrix(to_set={"NCCL_P2P_LEVEL": "SYS"}, launcher={"NCCL_P2P_LEVEL": "SYS"}, workers=workers)
    assert found.differences == ("workers 3 to 5 lack NCCL_P2P_LEVEL", "worker 7 has NCCL_P2P_LEVEL=PIX, not SYS")


def test_what_sglang_sets_for_all_workers_is_no_difference_and_is_marked():
    workers = {
        rank: {"NCCL_CUMEM_ENABLE": "0", "CUDA_DEVICE_MAX_CONNECTIONS": "8", "SGLANG_NEW": "1"} for rank in range(2)
    }
    found = matrix(launcher={}, workers=workers)
    assert found.differences == ()
    assert only(found, "NCCL_CUMEM_ENABLE").by.startswith("SGLang: 0 unless")
    assert only(found, "SGLANG_NEW").by == "SGLang: set at its start"


def test_what_sglang_overrules_is_a_difference_with_its_reason():
    asked = {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}
    workers = {rank: {"CUDA_DEVICE_MAX_CONNECTIONS": "8"} for rank in range(2)}
    found = matrix(to_set=asked, launcher=asked, workers=workers)
    assert found.differences == ("every worker has CUDA_DEVICE_MAX_CONNECTIONS=8, not 1 (SGLang: always 8)",)


@pytest.mark.parametrize(
    ("asked", "launcher", "words"),
    [
        ({"to_set": {"NCCL_ALGO": "Ring"}}, {}, "the launcher lacks NCCL_ALGO, which the profile sets"),
        (
            {"to_set": {"NCCL_ALGO": "Ring"}},
            {"NCCL_ALGO": "Tree"},
            "the launcher has NCCL_ALGO=Tree, the profile sets Ring",
        ),
        ({"unset": ["NCCL_ALGO"]}, {"NCCL_ALGO": "Tree"}, "the launcher has NCCL_ALGO=Tree, the profile unsets it"),
        ({"inherit": ["NCCL_ALGO"]}, {}, "NCCL_ALGO was to be inherited and is not there"),
        ({"inherit": ["HF_TOKEN"]}, {"HF_TOKEN": "***"}, None),
        ({"unset": ["NCCL_ALGO"]}, {}, None),
    ],
)
def test_the_launcher_against_the_profile(asked, launcher, words):
    assert matrix(launcher=launcher, **asked).differences == ((words,) if words else ())


def test_nothing_is_said_of_what_cannot_be_read():
    found = matrix(to_set={"NCCL_ALGO": "Ring", "OMP_NUM_THREADS": "1"}, launcher_why="gone", workers_why="no probe")
    assert found.differences == ()
    assert [variable.workers for variable in found.variables] == [(), ()]
    assert matrix(launcher={"OMP_NUM_THREADS": "1"}, workers={0: {}}).differences == (), "the probe does not report it"


def test_shortened_and_masked_values_are_the_same_value():
    long = "x" * 600
    workers = {0: {"NCCL_X": long[: environment.VALUE_LIMIT], "NCCL_API_KEY": "***"}}
    assert matrix(launcher={"NCCL_X": long, "NCCL_API_KEY": "***"}, workers=workers).differences == ()


def test_the_matrix_goes_over_the_wire():
    found = matrix(launcher={"NCCL_X": "1"}, workers={0: {}, 1: {"NCCL_X": ""}}, profile="p")
    assert msgspec.json.decode(msgspec.json.encode(found), type=environment.Matrix) == found
    assert found.differences == ("worker 0 lacks NCCL_X", "worker 1 has NCCL_X=, not 1")


def test_the_launcher_is_read_from_proc_and_masked(tmp_path):
    folder = tmp_path / "41"
    folder.mkdir()
    entries = ["NCCL_ALGO=Ring", "HF_TOKEN=hf_abcdefghijklmnopqrstuvwx", "HOME=/h", "NCCL_BAD=\x1b[31m", "EMPTY"]
    (folder / "environ").write_bytes("\0".join(entries).encode() + b"\0")
    profile = Profile(name="p", engine=EngineSection(env=Environment(set={"NCCL_ALGO": "Ring"}, inherit=("HF_TOKEN",))))
    found = environments.matrix(profile, 41, {None: {}, 0: {"NCCL_ALGO": "Ring", "NCCL_BAD": "?[31m"}}, proc=tmp_path)
    assert found.differences == ()
    assert only(found, "HF_TOKEN").launcher == "***"
    assert "HOME" not in {variable.name for variable in found.variables}
    gone = environments.matrix(profile, 42, {}, probe_why="silent", proc=tmp_path)
    assert (gone.launcher_why, gone.workers_why, gone.differences) == ("it is gone", "silent", ())
    assert environments.matrix(None, None, {}, proc=tmp_path).launcher_why.startswith("no process")
