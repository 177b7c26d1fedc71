import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.engine import loads
from tests.engine import fixtures

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.sampled_from(["loads", "decode_moments", "speculative", "dp_rank", "timestamp", "num_running_reqs", "accept_length", "token_usage"]), inner, max_size=6),
    max_leaves=20,
)  # fmt: skip
SEEN = {
    # running, queued, accept_len, rounds
    "cpu-0.5.23/main/main/http_load/v1_loads.txt": (3, 0, 1.8064516129032258, 65),
    "cpu-0.5.23/main/main/http_load/v1_loads_queue.txt": (1, 8, 1.7727272727272727, 168),
    "cpu-0.5.23/main/tiny_nospec/http_after/v1_loads.txt": (0, 0, None, 508),
    "cpu-0.5.23/combo/g23/http_after/v1_loads.txt": (0, 0, 3.28559670781893, 747),
    "h200-0.5.17/main/http_load/v1_loads.txt": (16, 0, 1.739770867430442, 618),
    "h200-0.5.17/main/http_load/v1_loads_queue.txt": (32, 64, 1.7361036339165545, 1899),
}


def read(path):
    return loads.parse(json.loads((fixtures.ROOT / path).read_text()))


@pytest.mark.parametrize("path", fixtures.LOADS, ids=fixtures.name)
def test_every_captured_answer_is_read(path):
    reading = loads.parse(json.loads(path.read_text()))
    assert reading.ranks == 1
    assert reading.version == ("0.5.17" if "h200" in str(path) else "0.5.23")
    assert reading.running is not None
    assert reading.queued is not None
    assert [rank for rank, _ in reading.moments] == [0]
    assert not reading.why


@pytest.mark.parametrize("path", SEEN)
def test_figures_counted_by_hand(path):
    reading = read(path)
    running, queued, accept_len, rounds = SEEN[path]
    assert (reading.running, reading.queued) == (running, queued)
    assert reading.accept_len == (accept_len if accept_len is None else pytest.approx(accept_len))
    assert reading.moments[0][1].rounds == rounds


def test_a_window_between_two_answers():
    old, new = read("h200-0.5.17/main/http_load/v1_loads.txt"), read("h200-0.5.17/main/http_load/v1_loads_queue.txt")
    window = loads.window(old, new)
    assert window.rounds == 1899 - 618
    assert window.cycle_ms == pytest.approx((17753113 - 8003658) / (1899 - 618) / 1000)
    assert window.batch == pytest.approx((29843 - 9208) / (1899 - 618))
    assert window.accept_len == pytest.approx((51828 - 16025) / (29843 - 9208))
    assert window.tok_s == pytest.approx((51828 - 16025) / ((17753113 - 8003658) / 1e6))


def test_nothing_decoded_and_restarts_say_so():
    old, new = read("h200-0.5.17/main/http_load/v1_loads.txt"), read("h200-0.5.17/main/http_load/v1_loads_queue.txt")
    assert loads.window(new, new).cycle_ms is None
    assert "nothing was decoded" in loads.window(new, new).why
    assert "restarted" in loads.window(new, old).why
    assert "no decode moments" in loads.window(old, loads.parse({"loads": [{"num_running_reqs": 1}]})).why


def test_data_parallel_ranks_are_summed_and_weighted():
    def load(rank, running, usage, tokens, moments, length):
        return {"dp_rank": rank, "num_running_reqs": running, "token_usage": usage, "max_total_num_tokens": tokens, "decode_moments": moments,
                "speculative": {"accept_length": length}, "gen_throughput": 100.0 * (rank + 1)}  # fmt: skip

    old = loads.parse(
        {"loads": [load(0, 1, 0.5, 100, [0, 0, 0, 0, 0, 0], 2.0), load(1, 3, 0.1, 300, [0, 0, 0, 0, 0, 0], 3.0)]}
    )
    new = loads.parse(
        {
            "loads": [
                load(1, 3, 0.1, 300, [10, 30, 100_000, 0, 0, 90], 3.0),
                load(0, 1, 0.5, 100, [10, 10, 200_000, 0, 0, 20], 2.0),
            ]
        }
    )
    assert (new.running, new.gen_throughput_tok_s) == (4, 300.0)
    assert new.token_usage == pytest.approx(0.2)
    assert new.accept_len == pytest.approx((2.0 * 10 + 3.0 * 30) / 40)
    window = loads.window(old, new)
    assert window.cycle_ms == pytest.approx(15.0)
    assert window.batch == pytest.approx(2.0)
    assert window.accept_len == pytest.approx(110 / 40)
    assert window.tok_s == pytest.approx(90 / 0.1 + 20 / 0.2)


@given(JSON, JSON)
def test_no_json_raises(old, new):
    loads.window(loads.parse(old), loads.parse(new))


@pytest.mark.parametrize(
    "body", [None, [], "x", {"detail": "Not Found"}, {"loads": {}}, {"loads": [1, None]}, {"loads": []}]
)
def test_anything_else_is_empty_and_says_why(body):
    reading = loads.parse(body)
    assert reading.running is None
    assert reading.why
