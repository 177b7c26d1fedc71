"""Hostile headers and configs: no traceback, little memory, little time."""

from __future__ import annotations

import json
import struct
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from console.drafters.facts import drafter_facts, parse_config, target_facts
from console.drafters.header import HEADER_LIMIT_BYTES, UnreadableError, read_header
from console.drafters.layout import bytes_expected, expected
from console.drafters.names import trained_for
from console.drafters.source import base_models_of
from tests.drafters.build import TINY

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=12), inner, max_size=5),
    max_leaves=20,
)
KEYS = st.sampled_from(
    [*TINY, "text_config", "rope_parameters", "transformer_layer_config", "speculators_config", "q_lora_rank"]
)


def header(data: bytes) -> None:
    try:
        read_header(lambda offset, length: data[offset : offset + length], len(data))
    except UnreadableError as error:
        assert str(error)


@given(st.binary(max_size=400))
def test_any_bytes(data):
    header(data)


@given(st.dictionaries(st.text(max_size=10), JSON, max_size=6), st.integers(0, 200))
def test_any_json_header(entries, extra):
    text = json.dumps(entries).encode()
    header(struct.pack("<Q", len(text)) + text + bytes(extra))


@given(
    st.dictionaries(
        st.text(max_size=8),
        st.fixed_dictionaries(
            {
                "dtype": st.sampled_from(["BF16", "F4", "I64", "x"]),
                "shape": st.lists(st.integers(-(2**70), 2**70), max_size=10),
                "data_offsets": st.lists(st.integers(-5, 2**70), min_size=2, max_size=2),
            }
        ),
        max_size=5,
    )
)
def test_any_tensor_entries(entries):
    text = json.dumps(entries).encode()
    header(struct.pack("<Q", len(text)) + text + bytes(50))


@given(st.dictionaries(KEYS, JSON, max_size=12), st.frozensets(st.text(max_size=10), max_size=4))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_config(config, names):
    facts = drafter_facts(config, names)
    bytes_expected(facts)
    expected(facts)
    target_facts(config, origin="test")


@given(st.binary(max_size=300))
def test_any_config_bytes(data):
    try:
        assert isinstance(parse_config(data), dict)
    except UnreadableError as error:
        assert str(error)


@given(st.text(max_size=300), st.lists(st.text(max_size=30), max_size=3), st.text(max_size=30))
def test_any_card_and_name(card, names, target):
    base_models_of(card)
    base_models_of("---\n" + card)
    assert trained_for(tuple(names), target)["message"]


@pytest.mark.parametrize(
    "text",
    [
        b"[" * (HEADER_LIMIT_BYTES - 8),
        b'{"a":' * 200_000,
        b"{" + b",".join(b'"%d":{}' % i for i in range(60_000)) + b"}",
        b'{"a":{"dtype":"BF16","shape":[' + b"1," * 400_000 + b'1],"data_offsets":[0,2]}}',
    ],
)
def test_bombs_cost_little_memory(text):
    text = text[:HEADER_LIMIT_BYTES]
    data = struct.pack("<Q", len(text)) + text
    tracemalloc.start()
    header(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 << 20
