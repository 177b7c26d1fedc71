"""The probe's messages as readings."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console import rig
from console.agent import figures
from console.agent.probe_feed import ProbeFeed
from console.agent.readings import Readings
from console.engine.feed import decode

NOW = 1_800_000_000.0


def counter(count, mean_ms):
    window = {"count": 20, "p50_ms": mean_ms, "p95_ms": mean_ms * 1.1, "max_ms": mean_ms * 2}
    return {"count": count, "sum_ms": count * mean_ms, "window": window, "by_batch": {"1": [count, count * mean_ms]}}


def message(second, *, rank=0, steps=None, verify_ms=26.0, **changes):
    """One stream, 30 ms a cycle, 0.62 then 0.38 accepted: 33 steps a second."""
    done = 33 * second if steps is None else steps
    base = {
        "schema": 1,
        "rank": rank,
        "tp": 2,
        "pid": 100 + rank,
        "at_s": NOW + second,
        "seq": second,
        "sglang": "0.5.23",
        "probe": "0.1.0",
        "hooks": {"acceptance": "on", "stages": "on"},
        "capabilities": {"depth_live": True, "depth_why": "", "candidate_steps": [0, 1, 2, 3], "swap_live": True},
        "depth": 2,
        "pinned": None,
        "adaptive": True,
        "stages": {
            "draft": counter(done, 1.5),
            "verify": counter(done, verify_ms),
            "extend": counter(done, 1.2),
            "cycle": counter(done, 30.0),
        },
        "acceptance": {
            "steps": done,
            "rounds": 100 * done,
            "drafted": 200 * done,
            "accepted": 100 * done,
            "tries": [100 * done, 62 * done],
            "hits": [62 * done, 38 * done],
        },
        "switches": [[NOW, 3, 2, "adaptive"]],
        "drafter": {"path": "/d", "checksum": "aa", "since_s": 1.0, "resident": ["/d"]},
        "environment": {"NCCL_CUMEM_ENABLE": "0"},
        "new_field": {"of": "a later probe"},
    }
    return base | changes


@pytest.fixture
def feed(tmp_path):
    made = ProbeFeed(tmp_path)

    def write(body, rank=0, now_s=None):
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        temporary = tmp_path / ".new"
        temporary.write_bytes(text)
        temporary.replace(tmp_path / f"probe-{rank}.json")
        if now_s is not None:
            made.poll(now_s)

    made.write = write
    return made


def play(feed, seconds, **changes):
    for second in seconds:
        feed.write(message(second, **changes), now_s=NOW + second)


def test_figures_of_the_leading_rank(feed):
    play(feed, range(1, 20))
    window = feed.window
    assert (window.source, window.at_s) == (rig.Source.PROBE, NOW + 19)
    assert window.cycle_ms == pytest.approx(30.0)
    assert window.batch == pytest.approx(100.0)
    assert window.accept_len == pytest.approx(2.0)
    assert window.accept_rate == pytest.approx(0.5)
    assert window.tok_s == pytest.approx(33 * 200)
    assert window.rounds == 100 * 33 * 15
    assert window.tries == (100 * 33 * 15, 62 * 33 * 15)
    assert window.hits == (62 * 33 * 15, 38 * 33 * 15)
    assert (window.drafted, window.accepted) == (200 * 33 * 15, 100 * 33 * 15)
    verify = window.verify
    assert (verify.mean_ms, verify.p50_ms, verify.max_ms) == (pytest.approx(26.0), 26.0, 52.0)
    assert verify.rounds == 33 * 3
    assert (feed.gauges.depth, feed.pinned, feed.candidate_steps) == (2.0, False, (0, 1, 2, 3))
    assert feed.environments == {0: {"NCCL_CUMEM_ENABLE": "0"}}


def test_times_follow_quickly_acceptance_slowly(feed):
    play(feed, range(1, 20))
    slow = message(20)
    slow["stages"]["cycle"]["sum_ms"] += 33 * 30.0  # the last second took twice as long
    feed.write(slow, now_s=NOW + 20)
    assert feed.window.cycle_ms == pytest.approx(40.0)
    assert feed.window.accept_len == pytest.approx(2.0)


def test_no_rounds_no_news(feed):
    play(feed, range(1, 5))
    for second in range(5, 300):
        feed.write(message(second, steps=33 * 4), now_s=NOW + second)
    known = Readings(windows=(feed.window,), gauges=(feed.gauges,), probe=feed.status)
    figure = figures.of_windows(known, "accept_len", NOW + 299)
    assert (figure.value, figure.stale, figure.why) == (pytest.approx(2.0), True, "no decode for 5 min")
    depth = figures.depth(known, NOW + 299)
    assert (depth.value, depth.stale) == (2.0, False)
    assert feed.status.present


def test_a_clock_that_was_set_back_does_not_silence_the_probe(feed):
    feed.forget(NOW + 3600)
    feed.poll(NOW + 3600)
    play(feed, range(1, 10))
    assert feed.status.present
    assert feed.window.accept_len == pytest.approx(2.0)


def test_another_depth_or_drafter_begins_anew(feed):
    play(feed, range(1, 10))
    play(feed, range(10, 11), depth=3)
    assert feed.window is None
    assert feed.gauges.depth == 3.0
    play(feed, range(11, 13), depth=3)
    assert feed.window.rounds == 100 * 33 * 2
    feed.write(message(13, depth=3, drafter={"path": "/e", "checksum": "bb"}), now_s=NOW + 13)
    assert feed.window is None


def test_a_restarted_rank_begins_anew(feed):
    play(feed, range(1, 10))
    feed.write(message(10, steps=5, pid=999), now_s=NOW + 10)
    assert feed.window is None
    feed.write(message(11, steps=10, pid=999), now_s=NOW + 11)
    assert feed.window.rounds == 500


def test_ranks_side_by_side(feed):
    for second in range(1, 5):
        feed.write(message(second, rank=1, verify_ms=31.0), rank=1)
        feed.write(message(second), now_s=NOW + second)
    assert [(entry.rank, entry.verify_ms) for entry in feed.window.ranks] == [
        (0, pytest.approx(26.0)),
        (1, pytest.approx(31.0)),
    ]
    assert feed.status.ranks == 2


def test_what_one_rank_cannot_no_one_can(feed):
    feed.write(
        message(1, rank=1, hooks={"acceptance": "on", "stages": "off: KeyError"}, capabilities={"swap_why": "no room"}),
        rank=1,
    )
    feed.write(message(1), now_s=NOW + 1)
    found = feed.status
    assert (found.depth_live, found.swap_live, found.swap_why) == (False, False, "no room")
    assert found.hooks == {"acceptance": "on", "stages": "rank 1: off: KeyError"}
    assert (found.version, found.why) == ("0.1.0", "")


def test_a_pinned_depth_and_a_fixed_one(feed):
    feed.write(message(1, pinned=2), now_s=NOW + 1)
    assert feed.pinned is True
    feed.write(message(2, adaptive=False), now_s=NOW + 2)
    assert feed.pinned is None


def test_a_hook_that_is_off_leaves_the_others(feed):
    off = {"hooks": {"stages": "off: device timer is off", "acceptance": "on"}, "stages": {}}
    play(feed, range(1, 4), **off)
    assert feed.window.accept_len == pytest.approx(2.0)
    assert (feed.window.cycle_ms, feed.window.verify) == (None, None)
    known = Readings(windows=(feed.window,), probe=feed.status)
    assert figures.stage(known, "verify", NOW + 3).why == "off: device timer is off"


def test_a_silent_probe_is_said(feed):
    play(feed, range(1, 4))
    feed.poll(NOW + 60)
    assert (feed.status.present, feed.status.why) == (False, "the probe has been silent for 57 s")


def test_messages_of_a_former_engine_do_not_count(feed):
    feed.forget(since_s=NOW + 100)
    feed.write(message(5), now_s=NOW + 101)
    assert not feed.status.present
    feed.write(message(102), now_s=NOW + 102)
    assert feed.status.present


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"schema": 2, "rank": 0, "pid": 1, "at_s": 1.0}',
        b'{"schema": 1, "rank": "zero", "pid": 1, "at_s": 1.0}',
        b'{"schema": 1}',
        b"[" * 100_000,
    ],
)
def test_a_file_that_is_no_message(feed, body):
    assert decode(body) is None
    feed.write(body, now_s=NOW)
    assert not feed.status.present
    feed.write(message(1), now_s=NOW + 1)
    assert feed.status.present


def test_a_folder_that_does_not_exist(tmp_path):
    feed = ProbeFeed(tmp_path / "none")
    feed.poll(NOW)
    assert feed.status == rig.ProbeStatus()


COUNT = st.integers(-(10**9), 10**12)


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "steps": COUNT,
                "rounds": COUNT,
                "drafted": COUNT,
                "accepted": COUNT,
                "tries": st.lists(COUNT, max_size=3),
                "hits": st.lists(COUNT, max_size=4),
            }
        ),
        min_size=2,
        max_size=4,
    ),
    st.floats(allow_nan=False, allow_infinity=False),
)
def test_any_counters_give_a_window_or_none(tmp_path_factory, acceptances, sum_ms):
    feed = ProbeFeed(tmp_path_factory.mktemp("probe"))
    for second, acceptance in enumerate(acceptances):
        stages = {"cycle": {"count": second + 1, "sum_ms": sum_ms * second}}
        found = decode(json.dumps(message(second, acceptance=acceptance, stages=stages)).encode())
        if found is not None:  # JSON has no infinity
            feed._take(found)
            feed._follow(feed._ranks[0])
    msgspec.json.encode(feed.window)
    assert feed.window is None or feed.window.accept_len is None or feed.window.accept_len >= 1.0
