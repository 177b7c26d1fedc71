"""The right verdict, the check's id and both values, for folders of every kind the field has met."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from console.drafters.answer import Check
from console.drafters.check import check
from console.drafters.verdict import Judgement, Verdict
from tests.drafters import build
from tests.drafters.build import KIMI, KIMI_TARGET, MLA, TARGET, config, folder, target, tensors_of, without


def judge(drafter: Path, goal: Path, running: Path | None = None, **more: str) -> Judgement:
    return check(str(drafter), target=str(goal), running=str(running) if running else "", **more)[0]


def failed(judgement: Judgement, identity: str) -> Check:
    found = [item for item in judgement.checks if item.id == identity and item.ok is False]
    assert found, f"{identity} did not fail: {[(c.id, c.ok, c.message) for c in judgement.checks]}"
    return found[0]


@pytest.fixture
def goal(tmp_path: Path) -> Path:
    return target(tmp_path / "target")


def test_good_drafter_fits(tmp_path, goal):
    judgement = judge(folder(tmp_path / "d", base_model="org/Tiny-1"), goal)
    assert judgement.verdict is Verdict.RESTART
    assert all(item.ok is not False for item in judgement.checks)


# ------------------------------------------------------------------------- section 2: published shapes


def test_kimi_drafter_of_the_story_has_the_listed_size(tmp_path):
    goal = target(tmp_path / "t", config(KIMI_TARGET, _name_or_path="moonshotai/Kimi-K2-Instruct"))
    drafter = folder(tmp_path / "d", config(KIMI), base_model="moonshotai/Kimi-K2-Instruct")
    judgement = judge(drafter, goal)
    assert judgement.verdict is Verdict.RESTART
    assert judgement.bytes_expected == 2_382_317_568
    assert next(item for item in judgement.checks if item.id == "C22").drafter == 2_382_317_568


def test_k2_drafter_on_k25_is_a_start_for_a_fine_tune(tmp_path):
    goal = target(tmp_path / "t", config(KIMI_TARGET))
    judgement = judge(folder(tmp_path / "d", config(KIMI), base_model="moonshotai/Kimi-K2-Instruct"), goal)
    assert judgement.verdict is Verdict.FINE_TUNE_START
    reason = failed(judgement, "C19")
    assert (reason.drafter, reason.reference) == ("moonshotai/Kimi-K2-Instruct", "moonshotai/Kimi-K2.5")


def test_mla_drafter_fits(tmp_path, goal):
    assert judge(folder(tmp_path / "d", config(MLA)), goal).verdict is Verdict.RESTART


def test_mla_with_fc_norm_and_no_mask(tmp_path, goal):
    cfg = config(MLA, fc_norm=True, norm_output=True)
    tensors = tensors_of(cfg, prefix="layers.0", mask=False)
    tensors |= {f"fc_norm.{i}.weight": ("BF16", [64]) for i in range(3)}
    assert judge(folder(tmp_path / "d", cfg, tensors=tensors), goal).verdict is Verdict.RESTART


def test_head_absent_although_declared_full(tmp_path, goal):
    """The Kimi-K2.6 file: draft_vocab_size equals vocab_size, not tied, no lm_head."""
    cfg = config(MLA, draft_vocab_size=256)
    judgement = judge(folder(tmp_path / "d", cfg, tensors=without(tensors_of(cfg), "lm_head")), goal)
    assert judgement.verdict is Verdict.INCOMPATIBLE
    assert "random weights" in failed(judgement, "C6").message


def test_other_hidden_size_of_its_own_brings_its_embedding(tmp_path, goal):
    cfg = config(hidden_size=32, target_hidden_size=64, num_attention_heads=2, head_dim=16)
    tensors = tensors_of(cfg) | {"embed_tokens.weight": ("BF16", [256, 32])}
    assert judge(folder(tmp_path / "good", cfg, tensors=tensors), goal).verdict is Verdict.RESTART
    judgement = judge(folder(tmp_path / "bad", cfg), goal)
    assert judgement.verdict is Verdict.INCOMPATIBLE
    failed(judgement, "C13")


def test_full_vocabulary_with_a_zero_map_is_legal(tmp_path, goal):
    cfg = config(draft_vocab_size=256)
    tensors = tensors_of(cfg) | {"d2t": ("I64", [256]), "t2d": ("BOOL", [256])}
    data = {"d2t": bytes(8 * 256), "t2d": b"\x01" * 256}
    assert judge(folder(tmp_path / "d", cfg, tensors=tensors, data=data), goal).verdict is Verdict.RESTART


def test_head_borrowed_from_the_target(tmp_path, goal):
    cfg = config(draft_vocab_size=None)
    assert judge(folder(tmp_path / "d", cfg), goal).verdict is Verdict.RESTART


def test_speculators_nesting_is_converted(tmp_path, goal):
    inner = {key: build.TINY[key] for key in ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads",
                                              "head_dim", "vocab_size", "num_hidden_layers", "model_type")}  # fmt: skip
    cfg = {
        "architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3", "draft_vocab_size": 64,
        "speculators_config": {"verifier": {"name_or_path": "org/Tiny-1", "architectures": ["LlamaForCausalLM"]}},
        "transformer_layer_config": inner, "eagle_aux_hidden_state_layer_ids": [1, 3, 5, 6], "target_hidden_size": None,
        "norm_before_residual": True,
    }  # fmt: skip
    flat = config(eagle_config={"eagle_aux_hidden_state_layer_ids": [1, 3, 5, 6]})
    tensors = tensors_of(flat, prefix="layers.0") | {"embed_tokens.weight": ("BF16", [256, 64])}
    judgement = judge(folder(tmp_path / "d", cfg, tensors=tensors), goal)
    assert judgement.verdict is Verdict.CONVERT
    failed(judgement, "C1")
    assert next(item for item in judgement.checks if item.id == "C19").ok is True


@pytest.mark.parametrize(
    ("cfg", "word"),
    [
        ({"architectures": ["DFlashDraftModel"], "block_size": 16, "dflash_config": {}}, "DFlash"),
        ({"architectures": ["DSparkModel"], "dspark_block": 7}, "DSpark"),
        ({"architectures": ["DeepseekV3ForCausalLMNextN"]}, "MTP"),
        ({"architectures": ["Qwen3NextForCausalLMMTP"]}, "MTP"),
        ({"architectures": ["LlamaForCausalLMEagle"], "hidden_size": 64}, "EAGLE-1/2"),
    ],
)
def test_other_families_are_named_not_called_broken(tmp_path, goal, cfg, word):
    judgement = judge(folder(tmp_path / "d", cfg, tensors={"a.weight": ("BF16", [2, 2])}), goal)
    assert judgement.verdict is Verdict.UNKNOWN
    assert word in judgement.why


def test_training_output_with_optimizer_state(tmp_path, goal):
    drafter = folder(tmp_path / "epoch_3")
    (drafter / "training_state.pt").write_bytes(b"\x80\x02junk")
    judgement = judge(drafter, goal)
    assert judgement.verdict is Verdict.RESTART
    assert "training_state.pt" in judgement.notes[0]


# ------------------------------------------------------------------------------- section 3: the file


def spoil(path: Path, how) -> Path:
    weights = path / "model.safetensors"
    weights.write_bytes(how(weights.read_bytes()))
    return path


def header_with(**changes):
    tensors = tensors_of(config())
    head, size, _ = build.header_bytes(tensors)
    entries = json.loads(head[8:])
    entries.update(changes)
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + bytes(size)


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 2382318000\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (LFS, ("LFS pointer", "2.38 GB")),
        (b"<!DOCTYPE html><html>401</html>", ("HTML",)),
        (b"PK\x03\x04" + bytes(100), ("zip",)),
        (b"", ("empty",)),
        (b"\x10\x00", ("too short",)),
        (struct.pack("<Q", 1 << 40) + b"{}", ("header says",)),
        (struct.pack("<Q", 1 << 62) + b"{}", ("header says",)),
        (struct.pack("<Q", 4) + b"nope", ("no JSON",)),
        (struct.pack("<Q", 2) + b"[]", ("no JSON",)),
        (struct.pack("<Q", 2) + b"{}" + b"x", ("too many",)),
        (struct.pack("<Q", 100_000) + b"[" * 100_000, ("no JSON",)),
        (header_with(bad={"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 7]}), ("do not fit",)),
        (header_with(bad={"dtype": "XX", "shape": [1], "data_offsets": [0, 1]}), ("unknown dtype",)),
        (header_with(bad={"dtype": "BF16", "shape": [-1], "data_offsets": [0, 2]}), ("impossible shape",)),
        (header_with(bad={"dtype": "BF16", "shape": [1 << 62, 1 << 62], "data_offsets": [0, 2]}), ("do not fit",)),
        (header_with(bad={"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}), ("overlap",)),
        (header_with(bad=7), ("malformed",)),
    ],
)
def test_unreadable_weights(tmp_path, goal, content, words):
    judgement = judge(spoil(folder(tmp_path / "d"), lambda _: content), goal)
    assert judgement.verdict is Verdict.UNREADABLE
    assert all(word in judgement.why for word in words), judgement.why


def test_truncated_and_lengthened(tmp_path, goal):
    cut = judge(spoil(folder(tmp_path / "a"), lambda data: data[:-1000]), goal)
    assert cut.verdict is Verdict.UNREADABLE
    assert "1000 bytes missing" in cut.why
    long = judge(spoil(folder(tmp_path / "b"), lambda data: data + b"junk"), goal)
    assert long.verdict is Verdict.UNREADABLE
    assert "4 bytes too many" in long.why


def shards(path: Path, *, drop: str = "", orphan: bool = False, wrong: bool = False) -> Path:
    tensors = tensors_of(config())
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config()))
    names = list(tensors)
    weight_map = {}
    for number, part in enumerate((names[:5], names[5:10], names[10:]), 1):
        file = f"model-{number:05d}-of-00003.safetensors"
        build.write_weights(path / file, {name: tensors[name] for name in part},
                            {k: v for k, v in build.vocabulary(64, 256).items() if k in part})  # fmt: skip
        weight_map |= dict.fromkeys(part, file)
    if wrong:
        weight_map["ghost.weight"] = "model-00001-of-00003.safetensors"
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    if drop:
        (path / drop).unlink()
    if orphan:
        build.write_weights(path / "model-00004-of-00003.safetensors", {"x": ("BF16", [1])})
    return path


def test_shards(tmp_path, goal):
    assert judge(shards(tmp_path / "a"), goal).verdict is Verdict.RESTART
    missing = judge(shards(tmp_path / "b", drop="model-00002-of-00003.safetensors"), goal)
    assert missing.verdict is Verdict.UNREADABLE
    assert "model-00002-of-00003.safetensors" in missing.why
    orphan = judge(shards(tmp_path / "c", orphan=True), goal)
    assert orphan.verdict is Verdict.RESTART
    assert "not named in the index" in orphan.notes[0]
    ghost = judge(shards(tmp_path / "d", wrong=True), goal)
    assert ghost.verdict is Verdict.UNREADABLE
    assert "ghost.weight" in ghost.why


def test_only_torch_format(tmp_path, goal):
    drafter = folder(tmp_path / "d")
    (drafter / "model.safetensors").unlink()
    (drafter / "pytorch_model.bin").write_bytes(b"\x80\x02cos\nsystem\n(S'false'\ntR.")
    judgement = judge(drafter, goal)
    assert judgement.verdict is Verdict.CONVERT
    assert "pytorch_model.bin" in judgement.why


@pytest.mark.parametrize(
    "text", [LFS, b"<html>", b"", b"[1]", b'{"a":', b"\xff\xfe\x00", b"{" * 200_000, b" " * (1 << 20) + b"  "]
)
def test_unreadable_config(tmp_path, goal, text):
    drafter = folder(tmp_path / "d")
    (drafter / "config.json").write_bytes(text)
    assert judge(drafter, goal).verdict is Verdict.UNREADABLE


# ------------------------------------------------------------------------------ section 4: the checks


@pytest.mark.parametrize(
    ("changes", "edit", "verdict", "identity", "values"),
    [
        # C3: another target width
        ({"target_hidden_size": 128}, {}, Verdict.INCOMPATIBLE, "C3", (128, 64)),
        # C4: fc of two states where three are named
        ({}, {"fc.weight": ("BF16", [64, 128])}, Verdict.INCOMPATIBLE, "C4", ("[64, 128]", "[64, 192]")),
        ({}, {"fc.weight": ("BF16", [64, 128])}, Verdict.INCOMPATIBLE, "C14", (2, 3)),
        # C5: vocabulary, and a padded one
        ({"vocab_size": 2048, "draft_vocab_size": 64}, {}, Verdict.INCOMPATIBLE, "C5", (2048, 256)),
        ({"vocab_size": 258}, {}, Verdict.RESTART, "C5", (258, 256)),
        # C6: head of another length
        ({}, {"lm_head.weight": ("BF16", [32, 64])}, Verdict.INCOMPATIBLE, "C6", ("[32, 64]", "[64, 64]")),
        # C7: map missing or of another length
        ({}, {"d2t": None}, Verdict.INCOMPATIBLE, "C7", ("missing", 64)),
        ({}, {"d2t": ("I64", [60])}, Verdict.INCOMPATIBLE, "C7", (60, 64)),
        # C9: heads against the tensors
        ({"num_attention_heads": 8}, {}, Verdict.INCOMPATIBLE, "C9", None),
        ({}, {"midlayer.self_attn.q_proj.weight": ("BF16", [64, 64])}, Verdict.INCOMPATIBLE, "C9", ("[64, 64]", "[64, 128]")),
        # C10: MLP width
        ({"intermediate_size": 256}, {}, Verdict.INCOMPATIBLE, "C10", None),
        # C11: missing by name
        ({}, {"midlayer.mlp.down_proj.weight": None}, Verdict.INCOMPATIBLE, "C11", ("1 missing", 13)),
        ({}, {"midlayer.hidden_norm.weight": None}, Verdict.INCOMPATIBLE, "C11", ("1 missing", 13)),
        ({"fc_norm": True}, {}, Verdict.INCOMPATIBLE, "C11", ("3 missing", 16)),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 3, 5], "norm_before_fc": True}}, {}, Verdict.INCOMPATIBLE, "C11",
         ("1 missing", 14)),
        # C12: unexpected
        ({}, {"extra.weight": ("BF16", [1])}, Verdict.RESTART, "C12", (1, 0)),
        # C14: ids at the top level, out of range
        ({"eagle_config": ..., "eagle_aux_hidden_state_layer_ids": [1, 3, 5]}, {}, Verdict.CONVERT, "C14", ("[1, 3, 5]", None)),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 3, 99]}}, {}, Verdict.INCOMPATIBLE, "C14", (99, 8)),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 4, 5]}}, {}, Verdict.RESTART, "C14", ("[2, 4, 5]", 8)),
        # C16: window
        ({"max_position_embeddings": 2048}, {}, Verdict.RESTART, "C16", (2048, 4096)),
        # C18: dtypes
        ({}, {"fc.weight": ("F8_E4M3", [64, 192])}, Verdict.RESTART, "C18", None),
        # C20: MLA has one layer and a q rank
        ({**MLA, "num_hidden_layers": 2}, {}, Verdict.INCOMPATIBLE, "C20", (2, 1)),
        ({**MLA, "q_lora_rank": None}, {}, Verdict.INCOMPATIBLE, "C20", (None, "q_lora_rank")),
        # malformed values
        ({"hidden_size": "64"}, {}, Verdict.INCOMPATIBLE, "C11", None),
        ({"num_attention_heads": -4}, {}, Verdict.INCOMPATIBLE, "C11", None),
    ],
)  # fmt: skip
def test_checks(tmp_path, goal, changes, edit, verdict, identity, values):
    cfg = config(**changes)
    base = MLA if "Deepseek" in cfg["architectures"][0] else build.TINY
    sound = config(
        base, **{k: v for k, v in changes.items() if k in {"target_hidden_size", "vocab_size", "draft_vocab_size"}}
    )
    tensors = tensors_of(sound) | {key: value for key, value in edit.items() if value}
    tensors = {name: value for name, value in tensors.items() if edit.get(name, True)}
    judgement = judge(folder(tmp_path / "d", cfg, tensors=tensors), goal)
    reason = failed(judgement, identity)
    assert judgement.verdict is verdict, judgement.why
    if values:
        assert (reason.drafter, reason.reference) == values


def test_map_contents(tmp_path, goal):
    def with_ids(name: str, ids: list[int], mask: bytes | None = None) -> Judgement:
        d2t = struct.pack("<64q", *(token - i for i, token in enumerate(ids)))
        flags = bytearray(256)
        for token in ids:
            flags[token % 256] = 1
        return judge(folder(tmp_path / name, data={"d2t": d2t, "t2d": mask or bytes(flags)}), goal)

    good = list(range(10, 74))
    assert with_ids("good", good).verdict is Verdict.RESTART
    assert "outside 0..255" in failed(with_ids("outside", [*good[:-1], 256]), "C7").message
    assert "already has" in failed(with_ids("twice", [*good[:-1], 10]), "C7").message
    assert "rising order" in failed(with_ids("falling", good[::-1]), "C7").message
    mask = failed(with_ids("mask", good, bytes(256)), "C8")
    assert (mask.drafter, mask.reference, mask.severity) == (0, 64, "warn")


def test_absolute_ids_are_recognised(tmp_path, goal):
    ids = list(range(100, 164))
    flags = bytearray(256)
    for token in ids:
        flags[token] = 1
    judgement = judge(folder(tmp_path / "d", data={"d2t": struct.pack("<64q", *ids), "t2d": bytes(flags)}), goal)
    assert "absolute token ids" in failed(judgement, "C7").message


def test_aux_ids_of_two_conventions_name_the_same_states():
    from console.drafters.checks import captured_states

    assert captured_states((1, 29, 57), "DeepseekV3ForCausalLM") == captured_states(
        (2, 30, 58), "KimiK25ForConditionalGeneration"
    )
    assert captured_states((1, 46, 90), "Qwen3MoeForCausalLM") == (2, 47, 91)


# --------------------------------------------------------- against the running drafter: swap, same, restart


def test_online_swap_same_and_restart(tmp_path, goal):
    running = folder(tmp_path / "a")
    other = folder(tmp_path / "b")
    data = bytearray((other / "model.safetensors").read_bytes())
    data[-20_000] ^= 1
    (other / "model.safetensors").write_bytes(data)
    assert judge(running, goal, running).verdict is Verdict.SAME
    assert judge(folder(tmp_path / "copy"), goal, running).verdict is Verdict.SAME
    assert judge(other, goal, running).verdict is Verdict.ONLINE_SWAP
    remapped = folder(tmp_path / "c", data=build.vocabulary(64, 256, step=3))
    judgement = judge(remapped, goal, running)
    assert judgement.verdict is Verdict.RESTART
    assert "d2t" in judgement.why
    wider = config(rope_theta=500000.0)
    judgement = judge(folder(tmp_path / "d", wider), goal, running)
    assert judgement.verdict is Verdict.RESTART
    assert failed(judgement, "C17").drafter == 500000.0


# ------------------------------------------------------------------------------------- D and H cases


def test_d1_random_head(tmp_path, goal):
    cfg = config(MLA, hidden_size=64, vocab_size=256, draft_vocab_size=256)
    judgement = judge(folder(tmp_path / "d", cfg, tensors=without(tensors_of(cfg), "lm_head")), goal)
    assert judgement.verdict is Verdict.INCOMPATIBLE
    assert failed(judgement, "C6").message == (
        "lm_head.weight is missing while draft_vocab_size is set; the server would start with random weights"
    )


def test_d2_eagle_instead_of_eagle3(tmp_path, goal):
    judgement = judge(folder(tmp_path / "d"), goal, algorithm="EAGLE")
    assert judgement.verdict is Verdict.INCOMPATIBLE
    assert failed(judgement, "C2").reference == "EAGLE"


@pytest.mark.parametrize("name", ["Qwen3ForCausalLM", "Eagle3LlamaForCausalLM", "LlamaForCausalLM"])
def test_d3_wrong_class_name(tmp_path, goal, name):
    judgement = judge(folder(tmp_path / "d", config(architectures=[name]), tensors=tensors_of(config())), goal)
    assert judgement.verdict is Verdict.CONVERT
    assert '"architectures": ["LlamaForCausalLMEagle3"]' in failed(judgement, "C1").message


def test_d6_reduced_head_without_the_key(tmp_path, goal):
    cfg = config(draft_vocab_size=...)
    judgement = judge(folder(tmp_path / "a", cfg, tensors=tensors_of(config())), goal)
    reason = failed(judgement, "C6")
    assert judgement.verdict is Verdict.CONVERT
    assert (reason.drafter, reason.reference) == (64, 256)
    assert '"draft_vocab_size": 64' in reason.message
    bare = judge(folder(tmp_path / "b", cfg, tensors=without(tensors_of(config()), "d2t", "t2d")), goal)
    assert bare.verdict is Verdict.INCOMPATIBLE


def test_d8_another_quantisation(tmp_path):
    goal = target(tmp_path / "t", config(TARGET, _name_or_path="org/Target1-NVFP4"))
    judgement = judge(folder(tmp_path / "d", base_model="org/Target1-FP8"), goal)
    assert judgement.verdict is Verdict.FINE_TUNE_START
    assert "another quantisation" in failed(judgement, "C19").message


def test_d9_short_window(tmp_path):
    goal = target(tmp_path / "t", config(TARGET, max_position_embeddings=131072))
    reason = failed(judge(folder(tmp_path / "d", config(max_position_embeddings=2048)), goal), "C16")
    assert (reason.drafter, reason.reference, reason.severity) == (2048, 131072, "warn")


def test_d10_multimodal_target_is_read_in_its_text_config(tmp_path):
    inner = {key: value for key, value in TARGET.items() if key not in {"architectures", "_name_or_path"}}
    goal = target(tmp_path / "t", {"architectures": ["QwenVL"], "text_config": inner, "vision_config": {}})
    assert judge(folder(tmp_path / "d"), goal).verdict is Verdict.RESTART


def test_unknown_target_is_never_good(tmp_path):
    judgement = check(str(folder(tmp_path / "d")))[0]
    assert judgement.verdict is Verdict.UNKNOWN


def test_h7_orphans_and_optimizer(tmp_path, goal):
    drafter = shards(tmp_path / "d", orphan=True)
    (drafter / "training_state.pt").write_bytes(b"x")
    judgement = judge(drafter, goal)
    assert judgement.verdict is Verdict.RESTART
    assert len(judgement.notes) == 2


def test_h8_missing_layer_is_listed_by_name(tmp_path, goal):
    tensors = without(tensors_of(config()), "down_proj")
    judgement = judge(folder(tmp_path / "d", tensors=tensors), goal)
    assert "layers.0.mlp.down_proj.weight" in failed(judgement, "C11").message
