"""The feed from the probe's publisher to the console's reader."""

import json
import time

import pytest

from console.engine.feed import FeedReader


def until(true, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


@pytest.fixture
def publisher(tmp_path):
    from sglang_console_probe.publish import Publisher

    made = []

    def compose(seq):
        return {"schema": 1, "rank": 3, "pid": 1, "at_s": time.time(), "seq": seq, "depth": 2}

    def start(compose=compose, folder=tmp_path):
        made.append(Publisher(folder, 3, compose))
        made[-1].start()
        return made[-1]

    yield start
    for publisher in made:
        publisher.stop()


def test_the_reader_hears_every_message(publisher, tmp_path):
    publisher()
    with FeedReader(tmp_path) as reader:
        first = until(reader.poll)[0]
        assert (first.rank, first.depth) == (3, 2)
        numbers = set()
        until(lambda: (numbers.update(m.seq for m in reader.poll()), max(numbers) >= first.seq + 6)[1])
        assert {*range(first.seq + 1, first.seq + 7)} <= numbers  # the file alone is renewed at every fourth only


def test_a_late_reader_has_the_newest_file(publisher, tmp_path):
    publisher()
    file = tmp_path / "probe-3.json"
    until(file.exists)
    with FeedReader(tmp_path, sockets=False) as reader:
        assert reader.poll()[0].seq >= 1


def test_a_change_is_published_at_once(publisher, tmp_path):
    made = publisher()
    file = tmp_path / "probe-3.json"
    until(file.exists)
    before = json.loads(file.read_text())["seq"]
    made.soon()
    assert until(lambda: json.loads(file.read_text())["seq"] > before, seconds=0.2)


def test_a_path_too_long_for_a_socket_leaves_the_file(publisher, tmp_path):
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    made = publisher(folder=folder)
    until((folder / "probe-3.json").exists)
    assert made.hook.state.startswith("off: file only: ")


def test_messages_that_fail_three_times_end_the_feed_with_the_reason(publisher, tmp_path):
    state = {"broken": True, "seen": None}

    def compose(seq):
        if made.hook.on and state["broken"]:
            raise RuntimeError("went wrong")
        return {"schema": 1, "rank": 3, "pid": 1, "at_s": time.time(), "seq": seq, "hooks": {"feed": made.hook.state}}

    from sglang_console_probe.publish import Publisher

    made = Publisher(tmp_path, 3, compose)
    made.start()
    try:
        file = tmp_path / "probe-3.json"
        until(file.exists)
        assert json.loads(file.read_text())["hooks"]["feed"].startswith("off: three messages in a row")
    finally:
        made.stop()
