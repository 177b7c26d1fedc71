"""Two drafters side by side, and the catalogue."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.drafters.catalogue import catalogue, resolve
from console.drafters.compare import compare, floats, relative_distance
from console.drafters.facts import target_facts
from console.drafters.source import Folder
from console.drafters.subject import read_drafter
from tests.drafters import build
from tests.drafters.build import config, folder, tensors_of


def bf16(values: list[float]) -> bytes:
    return b"".join(struct.pack("<f", value)[2:] for value in values)


def random_weights(seed: int, near: dict[str, bytes] | None = None, shift: float = 0.0) -> dict[str, bytes]:
    rng = random.Random(seed)
    out = dict(build.vocabulary(64, 256))
    for name, (dtype, shape) in tensors_of(config()).items():
        if dtype != "BF16":
            continue
        count = build.size_of(dtype, shape) // 2
        values = floats(near[name], "BF16") if near else [rng.gauss(0, 1) for _ in range(count)]
        out[name] = bf16([value + shift * rng.gauss(0, 1) for value in values]) if near else bf16(list(values))
    return out


def pair(tmp_path: Path, ours: dict[str, bytes], theirs: dict[str, bytes]):
    a, b = Folder(folder(tmp_path / "a", data=ours)), Folder(folder(tmp_path / "b", data=theirs))
    return compare(read_drafter(a), a, read_drafter(b), b)


def test_same_fine_tune_and_stranger(tmp_path):
    start = random_weights(1)
    assert pair(tmp_path / "1", start, start).relation == "same weights"
    tuned = pair(tmp_path / "2", start, random_weights(2, near=start, shift=0.1))
    assert tuned.relation == "fine-tune of the same start"
    assert tuned.median_distance == pytest.approx(0.1, abs=0.02)
    stranger = pair(tmp_path / "3", start, random_weights(3))
    assert stranger.relation == "unrelated"
    assert stranger.median_distance == pytest.approx(1.41, abs=0.1)
    assert stranger.vocabulary_overlap == 1.0


def test_other_vocabulary_asks_for_a_new_head(tmp_path):
    start = random_weights(1)
    other = start | build.vocabulary(64, 256, step=3)
    result = pair(tmp_path, start, other)
    assert 0 < result.vocabulary_overlap < 1
    assert "re-map" in result.head_note


def test_catalogue_holds_what_is_here_and_what_is_not(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    sha = "a" * 40
    cached = tmp_path / "hub" / "models--org--drafter" / "snapshots" / sha
    folder(cached, base_model="org/Tiny-1")
    (tmp_path / "hub" / "models--org--drafter" / "refs").mkdir()
    (tmp_path / "hub" / "models--org--drafter" / "refs" / "main").write_text(sha)
    build.target(tmp_path / "hub" / "models--org--Tiny-1" / "snapshots" / ("b" * 40))
    mine = folder(tmp_path / "mine")
    facts = target_facts(build.TARGET, origin="test")
    entries = catalogue((str(mine), "org/elsewhere", str(mine) + "/"), target=facts)
    assert [entry.name for entry in entries] == [str(mine), "org/elsewhere", "org/drafter"]
    assert [entry.verdict for entry in entries] == ["restart", "", "restart"]
    assert entries[2].licence == "mit"
    assert entries[2].revision == sha
    assert resolve("org/drafter") == cached
    assert resolve(f"org/drafter@{sha}") == cached
    assert resolve("org/drafter@" + "c" * 40) is None


@given(st.binary(max_size=64), st.sampled_from(["BF16", "F16", "F32"]))
def test_any_bytes_give_floats(data, dtype):
    width = 4 if dtype == "F32" else 2
    data = data[: len(data) // width * width]
    values = floats(data, dtype)
    assert len(values) == len(data) // width
    relative_distance(values, values)
