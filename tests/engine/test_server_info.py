import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.engine.server_info import parse, version_tuple
from tests.engine import fixtures

KEYS = st.sampled_from(["internal_states", "speculative_algorithm", "speculative_num_steps", "cuda_graph_config", "decode", "max_bs", "tp_size", "version", "architectures", "launch_command"])  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=20,
)
SPECULATING = {"main": (5, 2), "plugin": (5, 5), "combo": (5, 3), "t8b_spec": (5, 5)}


@pytest.mark.parametrize("path", fixtures.SERVER_INFOS, ids=fixtures.name)
def test_every_captured_answer_is_read(path):
    facts = parse(json.loads(path.read_text()))
    on_gpu = "h200" in str(path)
    assert facts.version == ("0.5.17" if on_gpu else "0.5.23")
    assert facts.model.startswith("/models/")
    assert (facts.tp, facts.dp) == (1, 1)
    assert facts.attention_backend == ("triton" if on_gpu else "torch_native")
    assert facts.graph_backend == ("full" if on_gpu else "disabled")
    assert facts.metrics is True
    assert facts.status == "ready"
    assert bool(facts.command) is not on_gpu
    if "nospec" in str(path):
        assert (facts.algorithm, facts.drafter, facts.depth, facts.depth_launch) == ("", "", None, None)
    else:
        assert facts.algorithm == "EAGLE3"
        assert facts.drafter == "/models/drafter-a"
        assert (facts.depth_launch, facts.topk, facts.adaptive) == (5, 1, True)
        assert facts.draft_tokens == facts.depth + 1


def test_depth_in_use_comes_from_the_internal_states():
    facts = parse(json.loads((fixtures.ROOT / "h200-0.5.17/main/http_load/server_info.txt").read_text()))
    assert (facts.depth_launch, facts.depth, facts.draft_tokens) == (5, 2, 3)
    assert (facts.graph_max_bs, facts.max_running, facts.max_tokens, facts.context_len) == (32, 32, 262144, 8192)
    assert facts.accept_len == pytest.approx(1.739770867430442)


@pytest.mark.parametrize("path", fixtures.MODEL_INFOS, ids=fixtures.name)
def test_model_info_alone_is_enough_for_a_name(path):
    facts = parse(None, json.loads(path.read_text()))
    assert facts.model.startswith("/models/")
    assert facts.architectures == ("LlamaForCausalLM",)
    assert facts.weight_version == "default"


def test_an_api_key_in_the_launch_command_is_masked():
    assert (
        parse({"launch_command": "--model-path x --admin-api-key hush --port 1"}).command
        == "--model-path x --admin-api-key *** --port 1"
    )


def test_a_split_attention_pair_is_told():
    assert (
        parse({"prefill_attention_backend": "fa3", "decode_attention_backend": "flashmla"}).attention_backend
        == "fa3/flashmla"
    )


@given(JSON, JSON)
def test_no_json_raises(server, model):
    parse(server, model)


@given(st.text(max_size=40))
def test_no_version_raises(text):
    version_tuple(text)


def test_versions_sort():
    order = ["0.5.6.post2", "0.5.10.post1", "0.5.11", "0.5.13", "0.5.13.post1", "0.5.14", "0.5.23", "0.6.0rc1", "1.0"]
    assert sorted(order, key=version_tuple) == order
    assert version_tuple("unknown") == ()
    assert version_tuple("v0.5.23+cu130") == (0, 5, 23)
