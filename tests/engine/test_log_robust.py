"""The reader takes anything, in any pieces, and tells the same."""

import gzip
import time

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from console.engine.batches import decode_batch
from console.engine.explain import Sample, chunks_of, explain
from console.engine.log import Kind, LogReader
from console.engine.logtext import LINE_LIMIT_CHARS, LineSplitter, PrefixReader, sanitize
from tests.engine import fixtures

DECODE = (
    "Decode batch, #running-req: 4, #token: 232, token usage: 0.01, accept len: 1.76, accept rate: 0.38, cuda graph: True,"
    " gen throughput (token/s): 35.01, #queue-req: 2"
)
WORDS = st.sampled_from(
    [
        "[2026-12-01 01:00:00 TP0] ", "[2026-13-99 99:99:99] ", "Decode batch, #running-req: ", "accept len: ", "Traceback (most recent call last):",
        "Scheduler hit an exception: ", "\n", "\r", '  File "/sglang/srt/x.py", line 1, in y', "ValueError: z", "Load weight begin.", "Load weight end.",
        "Capture draft CUDA graph begin.", "Capture target verify CUDA graph end. elapsed=1.0.0 s", "Built adaptive runtime state steps=1: elapsed=..s",
        "server_args=", "speculative_num_steps=9", "%|", "3/0", "100%| | 99999999999999999999/0", "\x1b[31m", "\x00", "é", "9" * 400, " ",
        "crashed with exit code", "Switch adaptive runtime state: steps 1 -> 99999999999", "Memory pool end.", ": error: ",
    ]
)  # fmt: skip


def finish(reader):
    state = reader.state
    return (
        state.lines,
        state.decode_lines,
        state.depth,
        state.phases,
        state.failures,
        state.warnings,
        state.sglang_lines,
    )


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(WORDS, st.text(max_size=30)), max_size=40).map("".join))
def test_no_text_raises(text):
    reader = LogReader()
    reader.feed(text)
    reader.close()
    finish(reader)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=8))
def test_no_bytes_raise(pieces):
    found = explain(pieces)
    assert found.as_json()["lines"] >= 0


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 5000), min_size=1, max_size=8))
def test_pieces_do_not_matter(sizes):
    data = (fixtures.ROOT / "h200-0.5.17/fail_drafter_bad/stderr.log").read_bytes()
    whole, cut = LogReader(), LogReader()
    whole.feed(data)
    whole.close()
    at = 0
    while at < len(data):
        for size in sizes:
            cut.feed(data[at : at + size])
            at += size
    cut.close()
    assert finish(cut) == finish(whole)


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    "prefix",
    [
        "[2026-12-01 01:00:00] ",
        "[2026-12-01 01:00:00.123] ",
        "[2026-12-01 01:00:00 TP0] ",
        "[2026-12-01 01:00:00 DP1 PP0 TP0 EP0] ",
        "[2026-12-01 01:00:00 DP0 PP0 ATTN_CP0 MOE_DP0 TP0 EP0] ",
        "\x1b[32m[2026-12-01 01:00:00 TP0]\x1b[0m ",
        "sglang-1  | [2026-12-01 01:00:00 TP0] ",
        "2026-12-01T01:00:00.123456789Z stderr F [2026-12-01 01:00:00 TP0] ",
        "",
    ],
)
def test_prefixes(prefix, ending):
    reader = LogReader()
    (event,) = reader.feed(prefix + DECODE + ending)
    assert event.kind is Kind.DECODE
    assert (event.batch.running, event.batch.queued, event.batch.tok_s) == (4, 2, 35.01)
    assert (event.batch.accept_len, event.batch.accept_rate, event.batch.graph) == (1.76, 0.38, True)


@pytest.mark.parametrize(
    ("line", "accept_len", "graph", "tok_s"),
    [
        ("Decode batch. #running-req: 1, #token: 5, gen throughput (token/s): 9.0, #queue-req: 0", None, None, 9.0),
        ("Decode batch, #running-req: 1, #token: 5, accept len: 2.0, gen thro", None, None, None),
        ("Decode batch, #running-req: 1, #token: 5, token usage: 0.00, cuda graph: True, gen throughput (token/s): 9.50, #queue-req: 0", None, True, 9.5),
        ("Decode batch [12], #running-req: 1, #full token: 5, full token usage: 0.00, mamba num: 1, accept len: 2.00, accept rate: 0.50, cap len: 3.0, npu graph: False, gen throughput (token/s): 9.50, #queue-req: 0, fwd occupancy: 9.10%", 2.0, False, 9.5),
        ("Decode batch, #running-req: 1, #token: 5, token usage: 0.00, accept len: 2.00, cuda graph: True, gen throughput (token/s): 9.50, #queue-req: 0", 2.0, True, 9.5),
    ],
)  # fmt: skip
def test_phrasings_of_decode_lines(line, accept_len, graph, tok_s):
    batch = decode_batch(line, "", None)
    if tok_s is None:
        assert batch is None
    else:
        assert (batch.accept_len, batch.graph, batch.tok_s) == (accept_len, graph, tok_s)


def test_cycle_and_depth_of_a_decode_line():
    batch = decode_batch(DECODE, "", None)
    assert batch.cycle_ms == pytest.approx(1000 * 4 * 1.76 / 35.01)
    assert batch.depth == 2  # 0.76 / 0.38
    assert decode_batch(DECODE.replace("35.01", "0.00"), "", None).cycle_ms is None


def test_depth_from_batch_lines_when_the_log_has_lost_its_beginning():
    assert explain([(f"[2026-12-01 01:00:00] {DECODE}\n" * 5).encode()]).depth == 2


def test_a_partial_line_waits_for_its_end():
    reader = LogReader()
    assert reader.feed(DECODE[:60]) == []
    assert reader.feed(DECODE[60:]) == []
    assert len(reader.feed("\n")) == 1


def test_the_last_line_without_an_end_counts():
    reader = LogReader()
    reader.feed(DECODE)
    assert len(reader.close()) == 1


def test_a_line_of_100_mb_costs_no_memory():
    splitter = LineSplitter()
    for _ in range(100):
        assert splitter.feed(b"x" * 1_000_000) == []
    assert len(splitter.pending) == LINE_LIMIT_CHARS
    assert splitter.feed(b"\nshort\n") == ["x" * LINE_LIMIT_CHARS, "short"]


def test_multibyte_characters_may_be_cut():
    splitter = LineSplitter()
    data = "é漢\n".encode()
    assert [line for byte in data for line in splitter.feed(bytes([byte]))] == ["é漢"]


def test_time_stamps_tell_distances():
    reader = PrefixReader()
    first = reader.read("[2026-12-01 01:00:00] a").at_s
    assert reader.read("[2026-12-01 01:01:30.500 TP0] b").at_s - first == pytest.approx(90.5)
    assert reader.read("[9999-99-99 99:99:99] c").at_s is None


@given(st.text(max_size=300))
def test_sanitized_text_holds_no_control_characters(text):
    shown = sanitize(text)
    assert not any(ord(mark) < 32 or 127 <= ord(mark) < 160 or mark in "\u202e\u2066\u200f" for mark in shown)


def test_sanitize_removes_escapes_whole():
    assert sanitize("\x1b[31mred\x1b[0m \x1b]0;title\x07bell\x07 \x1b[2Jx") == "red bell  x"


def test_eight_ranks_are_one_start():
    reader = LogReader()
    for line in (
        "Load weight begin. avail mem=9.00 GB",
        "Load weight end. elapsed={s}.00 s, type=A, avail mem=1.00 GB, mem usage=1.00 GB.",
    ):
        for rank in range(8):
            reader.feed(f"[2026-12-01 01:00:0{rank} TP{rank}] {line.format(s=rank + 1)}\n")
            if rank < 7 and "end" in line:
                assert reader.state.phases[-1].seconds is None
    assert (reader.state.phases[-1].name, reader.state.phases[-1].seconds) == ("weights_target", 8.0)


@pytest.mark.parametrize(
    "begin", ["Capture cuda graph begin. This can take up to several minutes.", "Capture draft cuda graph begin."]
)
def test_older_names_of_graph_capture(begin):
    reader = LogReader()
    reader.feed(f"[2026-12-01 01:00:00 TP0] {begin}\n")
    assert reader.state.phases[-1].name in {"graphs_decode", "graphs_draft_decode"}
    end = begin.partition(" begin")[0] + " end. Time elapsed: 12.11 s. mem usage=1.00 GB. avail mem=9.00 GB."
    reader.feed(f"[2026-12-01 01:00:12 TP0] {end}\n")
    assert reader.state.phases[-1].seconds == pytest.approx(12.11)


def test_the_median_of_many_values_comes_from_a_bounded_sample():
    sample = Sample(limit=1000)
    for value in range(100_000):
        sample.add(float(value))
    assert sample.median == pytest.approx(50_000, rel=0.01)
    assert (sample.mean, sample.low, sample.high, sample.count) == (49_999.5, 0.0, 99_999.0, 100_000)
    assert len(sample._kept) <= 1000


def test_packed_logs(tmp_path):
    data = (fixtures.ROOT / "h200-0.5.17/t8b_nospec/stderr.log").read_bytes()
    plain = explain([data]).as_json()
    packed = {"a.gz": gzip.compress(data), "a.zst": zstandard.ZstdCompressor().compress(data)}
    for name, body in packed.items():
        (tmp_path / name).write_bytes(body)
        assert explain(chunks_of(str(tmp_path / name))).as_json() == plain


def test_reading_is_cheap_enough_for_a_flood():
    lines = 20_000
    data = f"[2026-12-01 01:00:00 TP0] {DECODE}\n" * (
        lines // 2
    ) + "some debug line that nobody reads, with more text in it\n" * (lines // 2)
    began = time.process_time()
    LogReader().feed(data)
    spent = time.process_time() - began
    assert spent < 1.0, f"{spent / lines * 1e6:.0f} us a line: a flood of 50 000 lines/s must leave room"


def test_a_log_that_ends_in_nccl_init_names_the_hang():
    found = explain([b"[2026-12-01 01:00:00 TP0] Init torch distributed begin.\n"])
    assert "in phase Torch distributed init" in found.warnings[0]
    assert "NCCL_DEBUG=INFO" in found.warnings[0]


def test_a_drafter_that_contributes_nothing_is_told():
    line = DECODE.replace("1.76", "1.00").replace("0.38", "0.00")
    found = explain([f"[2026-12-01 01:00:00] {line}\n".encode() * 3])
    assert "the drafter contributes nothing" in found.warnings[0]


@pytest.mark.parametrize(
    "hostile", ["_", "-", "a_", "a-", "gh", "p_", "key", "://", "'", "auth_", "\x1b[", "9", "%|1/2"]
)
def test_hostile_lines_cost_no_time(hostile):
    line = hostile * (LINE_LIMIT_CHARS // len(hostile)) + " failed to key token"
    began = time.process_time()
    for prefix in ("", "[2026-12-01 01:00:00] "):
        reader = LogReader()
        reader.feed(prefix + line + "\n")
        sanitize(line)
    assert time.process_time() - began < 1.0


def test_a_simulated_log_says_so():
    found = explain(
        [b"[2026-12-01 01:00:00] SIMULATED engine: interfaces\n[2026-12-01 01:00:00 TP0] Load weight begin.\n"]
    )
    assert found.warnings[0].startswith("SIMULATED")
