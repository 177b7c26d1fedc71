"""Which drafter may take whose place: config.json and headers, without torch."""

import json
import struct

import pytest

from tests.probe.checkpoints import variant, whole_numbers, write, zeros

CONFIG = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "intermediate_size": 16,
    "vocab_size": 32,
    "draft_vocab_size": 4,
    "rope_theta": 10000.0,
    "rms_norm_eps": 1e-6,
}
TENSORS = {
    "fc.weight": zeros([8, 24]),
    "midlayer.self_attn.q_proj.weight": zeros([8, 16]),
    "norm.weight": zeros([8]),
    "lm_head.weight": zeros([4, 8]),
    "d2t": whole_numbers([0, 1, 2, 3]),
    "t2d": zeros([32], "BOOL"),
}
SHARED = {"embed_tokens.weight"}


@pytest.fixture
def running(tmp_path):
    return write(tmp_path / "running", TENSORS, CONFIG)


def check(running, offered, shared=SHARED):
    from sglang_console_probe.checkpoint import open_checkpoint
    from sglang_console_probe.fit import check_config, check_tensors

    was, now = open_checkpoint(running), open_checkpoint(offered)
    check_config(was.config, now.config)
    check_tensors(was, now, shared)


def refused(running, offered, shared=SHARED):
    from sglang_console_probe.checkpoint import CheckpointRefused

    with pytest.raises(CheckpointRefused) as caught:
        check(running, offered, shared)
    return str(caught.value)


def test_the_same_fits(running):
    check(running, running)


@pytest.mark.parametrize(
    "written",
    [
        {"tie_word_embeddings": False, "attention_bias": False, "norm_output": None},
        {"rope_scaling": None, "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}},
        {"eagle_config": {"use_aux_hidden_state": True}},
        {"torch_dtype": "float16", "max_position_embeddings": 99, "transformers_version": "5"},
    ],
)
def test_defaults_written_out_make_no_difference(running, tmp_path, written):
    check(running, write(tmp_path / "offered", TENSORS, {**CONFIG, **written}))


def test_rope_may_stand_under_its_new_key_only(running, tmp_path):
    config = {key: value for key, value in CONFIG.items() if key != "rope_theta"}
    check(running, write(tmp_path / "offered", TENSORS, {**config, "rope_parameters": {"rope_theta": 10000.0}}))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"hidden_size": 16}, "hidden_size: checkpoint 16, serving 8"),
        ({"architectures": ["Other"]}, "architectures"),
        ({"num_key_value_heads": 2}, "num_key_value_heads"),
        ({"draft_vocab_size": None}, "draft_vocab_size: checkpoint None, serving 4"),
        ({"rope_theta": 5e5}, "rope"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2}}, "rope"),
        ({"tie_word_embeddings": True}, "tie_word_embeddings"),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 3]}}, "eagle_aux_hidden_state_layer_ids"),
        ({"eagle_config": {"use_aux_hidden_state": False}}, "use_aux_hidden_state"),
        ({"norm_before_fc": True}, "norm_before_fc"),
        ({"quantization_config": {"quant_method": "fp8"}}, "quantised"),
    ],
)
def test_what_matters_must_be_the_same(running, tmp_path, change, why):
    assert why in refused(running, write(tmp_path / "offered", TENSORS, {**CONFIG, **change}))


def test_other_spellings_of_the_same_names(running, tmp_path):
    renamed = {
        "model.fc.weight": TENSORS["fc.weight"],
        "layers.0.self_attn.q_proj.weight": TENSORS["midlayer.self_attn.q_proj.weight"],
        **{name: TENSORS[name] for name in ("norm.weight", "lm_head.weight", "d2t")},
    }
    check(running, write(tmp_path / "offered", renamed, CONFIG))


def test_what_belongs_to_the_target_is_not_asked_for(running, tmp_path):
    with_embedding = variant(running, tmp_path / "more", embed_tokens__weight=zeros([32, 8]))
    check(running, with_embedding)
    check(with_embedding, running)
    assert "embed_tokens" in refused(running, with_embedding, shared=set())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"fc__weight": None}, "tensors are missing: fc.weight"),
        ({"fc__bias": zeros([8])}, "tensors that the running drafter has not: fc.bias"),
        ({"norm__weight": zeros([4])}, "norm.weight: checkpoint [4], serving [8]"),
        ({"norm__weight": zeros([8], "F8_E4M3")}, "norm.weight: checkpoint F8_E4M3, serving BF16"),
        ({"d2t": None}, "tensors are missing: d2t"),
        ({"d2t": whole_numbers([0] * 5)}, "d2t: checkpoint [5], serving [4]"),
    ],
)
def test_tensors_must_be_the_same(running, tmp_path, change, why):
    assert why in refused(running, variant(running, tmp_path / "offered", **change))


def test_another_float_is_converted(running, tmp_path):
    check(running, variant(running, tmp_path / "offered", norm__weight=zeros([8], "F32")))


# ---------------------------------------------------------------------------------------------------- files


def opened(path):
    from sglang_console_probe.checkpoint import CheckpointRefused, open_checkpoint

    with pytest.raises(CheckpointRefused) as caught:
        open_checkpoint(path)
    return str(caught.value)


def header(value) -> bytes:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return struct.pack("<Q", len(body)) + body


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "cut off or no safetensors"),
        (b"\xff" * 8, "cut off or no safetensors"),
        (struct.pack("<Q", 100) + b"{}", "cut off or no safetensors"),
        (header(b"{]"), "no readable header"),
        (header([1]), "no readable header"),
        (header({"a": 1}), "no readable header"),
        (header({"a": {"dtype": "BF16", "shape": [2], "data_offsets": [4, 0]}}), "no readable header"),
        (header({"a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}) + b"\0", "cut off"),
        (b"PK\x03\x04" + b"\0" * 200, "cut off or no safetensors"),
    ],
)
def test_files_that_are_none_are_refused(running, body, why):
    (running / "model.safetensors").write_bytes(body)
    assert why in opened(running)


def test_folders_that_are_none_are_refused(running, tmp_path):
    assert "no such folder" in opened(tmp_path / "nowhere")
    (running / "model.safetensors").unlink()
    assert "no safetensors file" in opened(running)
    (running / "config.json").write_text("[]")
    assert "no object" in opened(running)
    (running / "config.json").unlink()
    assert "no config.json" in opened(running)


def test_the_fingerprint_follows_the_file(running):
    from sglang_console_probe.checkpoint import open_checkpoint

    before = open_checkpoint(running)
    assert open_checkpoint(running).fingerprint == before.fingerprint
    assert before.size == sum(len(tensor.data) for tensor in TENSORS.values())
    write(running, {**TENSORS, "norm.weight": zeros([8], "F32")}, CONFIG)
    assert open_checkpoint(running).fingerprint != before.fingerprint
