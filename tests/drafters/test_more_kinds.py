"""Checkpoints of kinds met less often: quantised, fused, prefixed, odd dtypes, and folders that hold something else than files."""

from __future__ import annotations

import json
import os
import struct
import time
from pathlib import Path

import pytest

from console.drafters.check import check
from console.drafters.verdict import Verdict
from tests.drafters import build
from tests.drafters.build import MLA, TARGET, config, folder, target, tensors_of, without
from tests.drafters.test_verdicts import LFS, failed, judge

PLAIN = tensors_of(config())
QKV = {"midlayer.self_attn.qkv_proj.weight": ("BF16", [128, 128])}
GATE_UP = {"midlayer.mlp.gate_up_proj.weight": ("BF16", [256, 64])}


@pytest.fixture
def goal(tmp_path: Path) -> Path:
    return target(tmp_path / "target")


def linear(change) -> build.Tensors:
    """The tensors with every projection passed through ``change(name, shape)``."""
    out: build.Tensors = {}
    for name, (dtype, shape) in PLAIN.items():
        out |= change(name, shape) if "proj" in name else {name: (dtype, shape)}
    return out


def quark(name, shape):
    return {name: ("F8_E4M3", shape), name.replace(".weight", ".weight_scale"): ("F32", [shape[0]])}


def block_fp8(name, shape):
    return {name: ("F8_E4M3", shape), name.replace(".weight", ".weight_scale_inv"): ("F32", [1, 1])}


def nvfp4(name, shape):
    return {
        name: ("U8", [shape[0], shape[1] // 2]),
        name.replace(".weight", ".weight_scale"): ("F8_E4M3", [shape[0], shape[1] // 16]),
        name.replace(".weight", ".weight_scale_2"): ("F32", []),
    }


def awq(name, shape):
    stem = name.removesuffix(".weight")
    return {
        f"{stem}.qweight": ("I32", [shape[1], shape[0] // 8]),
        f"{stem}.qzeros": ("I32", [1, shape[0] // 8]),
        f"{stem}.scales": ("F16", [1, shape[0]]),
    }


def compressed(name, shape):
    stem = name.removesuffix(".weight")
    return {f"{stem}.weight_packed": ("I32", [shape[0], shape[1] // 8]), f"{stem}.weight_shape": ("I64", [2])}


@pytest.mark.parametrize(
    ("change", "declared"),
    [
        (quark, {"quant_method": "quark", "exclude": ["re:fc", "lm_head"]}),
        (block_fp8, {"quant_method": "fp8", "weight_block_size": [128, 128]}),
        (nvfp4, {"quant_algo": "NVFP4"}),
        (awq, {"quant_method": "awq", "bits": 4}),
        (compressed, {"quant_method": "compressed-tensors", "format": "pack-quantized"}),
    ],
)
def test_quantised_drafters_fit_and_their_scales_are_no_surprise(tmp_path, goal, change, declared):
    judgement = judge(folder(tmp_path / "d", config(quantization_config=declared), tensors=linear(change)), goal)
    assert judgement.verdict is Verdict.RESTART, judgement.why
    assert not [check for check in judgement.checks if check.ok is False]


def test_a_packed_weight_of_the_wrong_size_is_seen(tmp_path, goal):
    tensors = linear(awq) | {"midlayer.mlp.up_proj.qweight": ("I32", [64, 10])}
    judgement = judge(
        folder(tmp_path / "d", config(quantization_config={"quant_method": "awq"}), tensors=tensors), goal
    )
    assert judgement.verdict is Verdict.INCOMPATIBLE
    assert failed(judgement, "C10").drafter == "[64, 10]"


def test_scales_without_a_declaration_are_named(tmp_path, goal):
    judgement = judge(folder(tmp_path / "d", tensors=linear(quark)), goal)
    assert "without a quantization_config" in failed(judgement, "C18").message
    assert "weight_scale" in failed(judgement, "C12").message


def test_a_mixture_of_experts_does_not_load(tmp_path, goal):
    tensors = without(PLAIN, ".mlp.") | {"midlayer.mlp.experts.0.up_proj.weight": ("BF16", [32, 64])}
    judgement = judge(folder(tmp_path / "d", tensors=tensors), goal)
    assert judgement.verdict is Verdict.INCOMPATIBLE
    assert "loaders are dense" in failed(judgement, "C11").message


def test_vision_rope(tmp_path, goal):
    scaling = {"type": "mrope", "mrope_section": [4, 2, 2], "rope_type": "default"}
    running = folder(tmp_path / "a", config(rope_scaling=scaling))
    assert judge(running, goal).verdict is Verdict.RESTART
    other = judge(folder(tmp_path / "b"), goal, running)
    assert "mrope_section" in failed(other, "C17").message


def test_embedding_kept_and_head_cut(tmp_path, goal):
    """The k-l-lambda file: MLA, head cut to the draft vocabulary, d2t without t2d, embed_tokens kept."""
    tensors = tensors_of(config(MLA), mask=False) | {"embed_tokens.weight": ("BF16", [256, 64])}
    judgement = judge(folder(tmp_path / "d", config(MLA), tensors=tensors), goal)
    assert judgement.verdict is Verdict.RESTART
    assert any(check.id == "C13" and "live swap must leave it out" in check.message for check in judgement.checks)


@pytest.mark.parametrize("base", [build.TINY, MLA])
def test_head_of_the_target_without_the_key(tmp_path, goal, base):
    cfg = config(base, draft_vocab_size=...)
    tensors = without(tensors_of(config(base)), "lm_head", "d2t", "t2d")
    judgement = judge(folder(tmp_path / "d", cfg, tensors=tensors), goal)
    assert judgement.verdict is Verdict.RESTART
    warned = [check for check in judgement.checks if check.id == "C6" and check.ok is False]
    assert bool(warned) is (base is build.TINY), (
        "the Llama loader reads the key, the MLA loader asks whether it is there"
    )


def test_null_target_hidden_size_is_mended_by_an_edit(tmp_path, goal):
    judgement = judge(folder(tmp_path / "d", config(target_hidden_size=None)), goal)
    assert judgement.verdict is Verdict.CONVERT
    assert failed(judgement, "C3").drafter == "null"


def prefixed(tensors: build.Tensors, *, head: bool = False) -> build.Tensors:
    return {(f"model.{n}" if head or "lm_head" not in n else n): value for n, value in tensors.items()}


def test_prefixed_names(tmp_path, goal):
    llama = prefixed(tensors_of(config(), prefix="layers.0"))
    assert judge(folder(tmp_path / "llama", tensors=llama, data={}), goal).verdict is Verdict.RESTART
    mla = prefixed(tensors_of(config(MLA), prefix="layers.0"))
    judgement = judge(folder(tmp_path / "mla", config(MLA), tensors=mla, data={}), goal)
    assert judgement.verdict is Verdict.CONVERT
    assert failed(judgement, "C11").drafter == "model.fc.weight"
    judgement = judge(folder(tmp_path / "head", tensors=prefixed(PLAIN, head=True), data={}), goal)
    assert judgement.verdict is Verdict.CONVERT
    assert "model.lm_head.weight" in failed(judgement, "C6").message


def test_fused_on_disk(tmp_path, goal):
    parts = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
    fused = without(PLAIN, *parts) | QKV | GATE_UP
    assert judge(folder(tmp_path / "good", tensors=fused), goal).verdict is Verdict.RESTART
    for identity, wrong in (
        ("C9", {"midlayer.self_attn.qkv_proj.weight": ("BF16", [100, 128])}),
        ("C10", {"midlayer.mlp.gate_up_proj.weight": ("BF16", [128, 64])}),
    ):
        judgement = judge(folder(tmp_path / identity, tensors=fused | wrong), goal)
        assert judgement.verdict is Verdict.INCOMPATIBLE
        assert failed(judgement, identity).drafter == str(next(iter(wrong.values()))[1])
    mla = without(tensors_of(config(MLA)), "q_a_proj", "kv_a_proj_with_mqa")
    mla |= {"midlayer.self_attn.fused_qkv_a_proj_with_mqa.weight": ("BF16", [8 + 16 + 8, 128])}
    assert judge(folder(tmp_path / "mla", config(MLA), tensors=mla), goal).verdict is Verdict.RESTART


def offsets(code: str) -> bytes:
    return struct.pack(f"<64{code}", *range(64))


@pytest.mark.parametrize(("dtype", "code"), [("I64", "q"), ("I32", "i"), ("I16", "h"), ("I8", "b"), ("U8", "B")])
def test_map_in_small_integers(tmp_path, goal, dtype, code):
    mask = bytes(index % 2 == 0 for index in range(128)) + bytes(128)
    drafter = folder(tmp_path / "d", tensors=PLAIN | {"d2t": (dtype, [64])}, data={"d2t": offsets(code), "t2d": mask})
    judgement = judge(drafter, goal)
    assert judgement.verdict is Verdict.RESTART, judgement.why
    assert [check.ok for check in judgement.checks if check.id in {"C7", "C8"}] == [True, True]


@pytest.mark.parametrize("dtype", ["U16", "U32", "U64", "F32", "BF16"])
def test_map_of_a_type_that_cannot_be_added(tmp_path, goal, dtype):
    judgement = judge(folder(tmp_path / "d", tensors=PLAIN | {"d2t": (dtype, [64])}, data={}), goal)
    assert judgement.verdict is Verdict.INCOMPATIBLE
    assert f"d2t is {dtype}" in failed(judgement, "C7").message


def test_tied_head_and_reduced_vocabulary_exclude_each_other(tmp_path, goal):
    judgement = judge(folder(tmp_path / "d", config(tie_word_embeddings=True), tensors=without(PLAIN, "lm_head")), goal)
    assert judgement.verdict is Verdict.INCOMPATIBLE
    assert (failed(judgement, "C6").drafter, failed(judgement, "C6").reference) == (64, 256)


def test_draft_vocabulary_beyond_the_target(tmp_path, goal):
    judgement = judge(folder(tmp_path / "d", config(draft_vocab_size=512)), goal)
    assert judgement.verdict is Verdict.INCOMPATIBLE
    assert (failed(judgement, "C7").drafter, failed(judgement, "C7").reference) == (512, 64 * 8)


@pytest.mark.parametrize(("key", "identity"), [("intermediate_size", "C10"), ("num_attention_heads", "C9")])
def test_a_size_the_config_does_not_say_is_never_good(tmp_path, goal, key, identity):
    judgement = judge(folder(tmp_path / "d", config(**{key: ...}), tensors=PLAIN), goal)
    assert judgement.verdict is Verdict.UNKNOWN
    assert [check.ok for check in judgement.checks if check.id == identity] == [None]


# ------------------------------------------------------------------------------- files that are something else


def only(path: Path, **files: bytes) -> Path:
    drafter = folder(path)
    (drafter / "model.safetensors").unlink()
    for name, content in files.items():
        (drafter / name.replace("__", ".")).write_bytes(content)
    return drafter


def test_other_formats(tmp_path, goal):
    index = b'{"weight_map": {"fc.weight": "pytorch_model-00001-of-00001.bin"}}'
    part = "pytorch_model-00001-of-00001__bin"
    sharded = only(tmp_path / "a", pytorch_model__bin__index__json=index, **{part: b"\x80\x02."})
    assert judge(sharded, goal).verdict is Verdict.CONVERT
    lost = judge(only(tmp_path / "b", pytorch_model__bin__index__json=index), goal)
    assert lost.verdict is Verdict.UNREADABLE
    assert "pytorch_model-00001-of-00001.bin" in lost.why
    pointer = judge(only(tmp_path / "c", pytorch_model__bin=LFS), goal)
    assert pointer.verdict is Verdict.UNREADABLE
    assert "2.38 GB" in pointer.why
    for name in ("model__pt", "model__gguf"):
        assert judge(only(tmp_path / name, **{name: b"GGUF"}), goal).verdict is Verdict.CONVERT
    state = judge(only(tmp_path / "state", training_state__pt=b"\x80\x02."), goal)
    assert state.verdict is Verdict.UNREADABLE


def test_several_files_without_an_index(tmp_path, goal):
    drafter = folder(tmp_path / "d", tensors=dict(list(PLAIN.items())[:7]))
    rest = dict(list(PLAIN.items())[7:])
    build.write_weights(drafter / "other.safetensors", rest, build.vocabulary(64, 256))
    assert judge(drafter, goal).verdict is Verdict.RESTART
    build.write_weights(drafter / "third.safetensors", rest, build.vocabulary(64, 256))
    assert "stands twice (other.safetensors and third.safetensors)" in judge(drafter, goal).notes[0]


def fifo(path: Path) -> None:
    os.mkfifo(path)


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def dangling(path: Path) -> None:
    path.symlink_to("../../blobs/0123456789abcdef")


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "model.safetensors.index.json"])
@pytest.mark.parametrize("put", [fifo, loop, dangling, endless, Path.mkdir])
def test_what_is_no_file_neither_hangs_nor_passes(tmp_path, goal, name, put):
    drafter = folder(tmp_path / "d")
    (drafter / name).unlink(missing_ok=True)
    put(drafter / name)
    begun = time.monotonic()
    assert judge(drafter, goal).verdict is Verdict.UNREADABLE
    assert time.monotonic() - begun < 1.0


def test_a_fifo_as_card_and_a_loop_inside_do_not_matter(tmp_path, goal):
    drafter = folder(tmp_path / "d")
    os.mkfifo(drafter / "README.md")
    (drafter / "again").symlink_to(drafter)
    assert judge(drafter, goal).verdict is Verdict.RESTART


def test_a_file_without_the_right_to_read_it(tmp_path, goal, monkeypatch):
    drafter = folder(tmp_path / "d")
    really = Path.open

    def refuse(self, *args, **how):
        if self.name == "model.safetensors":
            raise PermissionError(13, "Permission denied")
        return really(self, *args, **how)

    monkeypatch.setattr(Path, "open", refuse)
    judgement = judge(drafter, goal)
    assert judgement.verdict is Verdict.UNREADABLE
    assert "Permission denied" in judgement.why


# ------------------------------------------------------------------------------------------------ odd configs


def test_configs_as_python_reads_them(tmp_path):
    goal = target(tmp_path / "t", config(TARGET, time_step_limit=[0.0, float("inf")], initializer_range=float("nan")))
    assert judge(folder(tmp_path / "d", config(dropout=float("nan"))), goal).verdict is Verdict.RESTART
    bad = judge(folder(tmp_path / "n", config(rope_theta=float("nan"))), goal)
    assert "rope_theta" in failed(bad, "C11").message
    huge = folder(tmp_path / "h")
    (huge / "config.json").write_text(json.dumps(config(padding="x" * (2 << 20))))
    assert "larger than 1 MB" in judge(huge, goal).why


def test_the_last_of_two_equal_keys_counts_as_in_python(tmp_path, goal):
    drafter = folder(tmp_path / "d")
    text = (drafter / "config.json").read_text()
    (drafter / "config.json").write_text(text[:-1] + ', "hidden_size": 128}')
    judgement = judge(drafter, goal)
    assert judgement.verdict is Verdict.INCOMPATIBLE
    assert failed(judgement, "C3").drafter == 128


def test_a_name_twice_in_a_header_is_refused(tmp_path, goal):
    drafter = folder(tmp_path / "d")
    entry = b'"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
    text = b"{" + entry + b"," + entry + b"}"
    (drafter / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(4))
    judgement = judge(drafter, goal)
    assert judgement.verdict is Verdict.UNREADABLE
    assert "'a' stands twice" in judgement.why


def test_a_folder_that_is_a_loop_is_none(tmp_path):
    from console.errors import ConsoleError

    loop(tmp_path / "self")
    with pytest.raises(ConsoleError, match="no such drafter"):
        check(str(tmp_path / "self"))
