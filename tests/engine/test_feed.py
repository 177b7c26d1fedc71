"""Reading the probe's feed: sockets, files, restarts, garbage."""

import json
import os
import time

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from console.engine.feed import MESSAGE_LIMIT_BYTES, FeedReader, Message, between, decode, status


def body(rank=0, **fields):
    message = {"schema": 1, "rank": rank, "pid": 10, "at_s": 100.0, "seq": 1, "tp": 2, **fields}
    return json.dumps(message).encode()


def message(rank=0, **fields) -> Message:
    found = decode(body(rank, **fields))
    assert found is not None
    return found


def put(folder, rank=0, **fields):
    path = folder / f"probe-{rank}.json"
    path.write_bytes(body(rank, **fields))
    os.utime(path, ns=(time.time_ns(),) * 2)


def counters(steps=0, rounds=0, accepted=0, tries=(), hits=()):
    return {
        "steps": steps, "rounds": rounds, "drafted": 3 * rounds, "accepted": accepted, "tries": list(tries), "hits": list(hits),
    }  # fmt: skip


def stage(count, ms, by_batch=None):
    window = {"count": count, "p50_ms": 1.0, "p95_ms": 2.0, "max_ms": 3.0}
    return {"count": count, "sum_ms": ms, "window": window, "by_batch": by_batch or {}}


OLD = {
    "acceptance": counters(10, 40, 60, [40, 30], [30, 20]),
    "stages": {"verify": stage(10, 100.0, {"4": [10, 100.0]})},
}
NEW = {
    "acceptance": counters(14, 56, 90, [56, 42, 5], [42, 30, 2]),
    "stages": {"verify": stage(14, 148.0, {"4": [12, 120.0], "8": [2, 28.0]}), "draft": stage(4, 2.0)},
    "seq": 5,
    "at_s": 101.5,
}


def test_a_window_is_what_happened_between_two_messages():
    found = between(message(**OLD), message(**NEW))
    assert (found.seconds, found.steps, found.rounds, found.accepted) == (1.5, 4, 16, 30)
    assert found.accept_len == 1 + 30 / 16
    assert (found.tries, found.hits) == ((16, 12, 5), (12, 10, 2))  # a position that is new counts from zero
    verify = found.stages["verify"]
    assert (verify.count, verify.sum_ms, verify.mean_ms, verify.p95_ms) == (4, 48.0, 12.0, 2.0)
    assert verify.by_batch == {4: (2, 20.0), 8: (2, 28.0)}
    assert found.stages["draft"].mean_ms == 0.5
    assert not found.restarted


def test_the_first_message_and_one_of_another_process_have_no_difference():
    first = between(None, message(**NEW))
    assert (first.seconds, first.rounds, first.accept_len, first.restarted) == (None, 0, None, False)
    again = between(message(**NEW), message(**OLD, pid=11))
    assert (again.seconds, again.rounds, again.restarted) == (None, 0, True)
    assert between(message(**NEW), message(**OLD)).seconds is None  # counters that fall belong to something else


def test_a_stage_without_rounds_has_no_mean():
    found = between(message(**OLD), message(**{**OLD, "seq": 2, "at_s": 101.0}))
    assert found.stages["verify"].mean_ms is None
    assert found.accept_len is None


def test_files_are_read_and_only_news_makes_a_window(tmp_path):
    put(tmp_path, 0, **OLD)
    put(tmp_path, 1, **OLD)
    with FeedReader(tmp_path) as reader:
        assert [window.rank for window in reader.windows()] == [0, 1]
        assert reader.windows() == ()
        put(tmp_path, 1, **NEW)
        (window,) = reader.windows()
        assert (window.rank, window.rounds) == (1, 16)


def test_a_restarted_rank_is_followed(tmp_path):
    put(tmp_path, **NEW)
    with FeedReader(tmp_path) as reader:
        reader.windows()
        put(tmp_path, pid=11, seq=1, at_s=200.0)
        (window,) = reader.windows()
        assert window.restarted
        put(tmp_path, pid=11, seq=2, at_s=201.0, acceptance=counters(1, 2, 2))
        assert reader.windows()[0].rounds == 2


class Rank:
    """A rank's socket."""

    def __init__(self, folder, rank=0):
        self.path = folder / f"probe-{rank}.sock"
        self.path.unlink(missing_ok=True)
        self.context = zmq.Context(io_threads=1)
        self.socket = self.context.socket(zmq.PUB)
        self.socket.set(zmq.LINGER, 0)
        self.socket.bind(f"ipc://{self.path}")

    def end(self):
        self.context.destroy(linger=0)


@pytest.fixture
def rank(tmp_path):
    made = []

    def start():
        made.append(Rank(tmp_path))
        return made[-1]

    yield start
    for entry in made:
        entry.end()


def heard(reader, rank, *bodies, seconds=10):
    """Send until the newest is heard; a subscriber misses what was sent before it was there."""
    deadline = time.monotonic() + seconds
    wanted = decode(bodies[-1])
    while wanted not in reader.poll():
        for entry in bodies:
            rank.socket.send(entry)
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return reader.messages


def test_sockets_are_heard_between_files(tmp_path, rank):
    one = rank()
    put(tmp_path, seq=1)
    with FeedReader(tmp_path) as reader:
        (found,) = heard(reader, one, body(seq=7, at_s=102.0))
        assert found.seq == 7
        put(tmp_path, seq=2)  # an older file comes late
        assert reader.poll()[0].seq == 7


def test_a_socket_bound_anew_is_followed(tmp_path, rank):
    one = rank()
    with FeedReader(tmp_path) as reader:
        heard(reader, one, body(seq=7))
        one.end()
        heard(reader, rank(), body(seq=1, pid=11, at_s=103.0))


def test_garbage_between_messages_is_passed_over(tmp_path, rank):
    one = rank()
    with FeedReader(tmp_path) as reader:
        heard(reader, one, b"\xff\x00", b"[]", b'{"schema": 9}', b"[" * 100_000, body(seq=3))
        assert len(reader.messages) == 1


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1]", body(schema=2), body(rank=-1), body(rank=5000), body(at_s="now"), b"\xff\xfe", b"[" * 200_000,
     b" " * (MESSAGE_LIMIT_BYTES + 1)],
)  # fmt: skip
def test_files_that_hold_no_message_are_passed_over(tmp_path, content):
    (tmp_path / "probe-0.json").write_bytes(content)
    (tmp_path / "probe-x.json").mkdir()
    with FeedReader(tmp_path) as reader:
        assert reader.poll() == ()
        (tmp_path / "probe-0.json").write_bytes(body())
        os.utime(tmp_path / "probe-0.json", ns=(time.time_ns() + 10,) * 2)
        assert len(reader.poll()) == 1


@given(st.binary(max_size=300))
def test_decoding_anything_never_raises(content):
    assert decode(content) is None or isinstance(decode(content), Message)


def test_a_folder_that_is_not_there_has_no_ranks(tmp_path):
    with FeedReader(tmp_path / "nowhere") as reader:
        assert reader.windows() == ()
        assert status(reader.poll()).present is False


# --------------------------------------------------------------------------------------------------- status

CAN = {"depth_live": True, "swap_live": True}


def test_all_ranks_can(tmp_path):
    found = status([message(rank, capabilities=CAN, hooks={"stages": "on"}, probe="0.1.0") for rank in (1, 0)])
    assert (found.present, found.ranks, found.version) == (True, 2, "0.1.0")
    assert (found.depth_live, found.swap_live, found.hooks) == (True, True, {"stages": "on"})


def test_one_rank_that_cannot_is_enough_and_is_named():
    cannot = {"depth_live": True, "swap_live": False, "swap_why": "quantised"}
    one = message(0, capabilities=CAN, hooks={"stages": "on", "feed": "on"})
    other = message(1, capabilities=cannot, hooks={"stages": "off: broken"})
    found = status([one, other])
    assert (found.depth_live, found.swap_live, found.swap_why) == (True, False, "quantised")
    assert found.hooks == {"stages": "rank 1: off: broken", "feed": "rank 1: off: unknown to this rank"}


def test_a_probe_that_did_not_attach_is_not_there():
    off = {"attach": "off: RuntimeError: no ranks"}
    found = status([message(rank, hooks=off, capabilities={"depth_why": "did not attach"}) for rank in (0, 1)])
    assert (found.present, found.why, found.depth_why) == (False, off["attach"], "did not attach")
    assert status([message(0, hooks={"attach": "on"}), message(1, hooks=off)]).present


def test_the_same_reason_is_said_once_and_different_ones_by_rank():
    same = [message(rank, hooks={"stages": "off: a"}, capabilities={"depth_why": "no tiers"}) for rank in (0, 1)]
    assert status(same).hooks == {"stages": "off: a"}
    assert status(same).depth_why == "no tiers"
    other = message(1, hooks={"stages": "off: b"}, capabilities={"depth_why": "no probe"})
    found = status([same[0], other])
    assert found.hooks == {"stages": "rank 0: off: a; rank 1: off: b"}
    assert found.depth_why == "rank 0: no tiers; rank 1: no probe"
