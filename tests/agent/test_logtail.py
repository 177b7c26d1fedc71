"""Following a log that grows, floods, is cut, replaced or missing; and reading pages of it."""

import asyncio
import os
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.agent import logpage, logtail
from console.agent.logtail import LogTail
from console.engine.log import Kind
from console.errors import ConsoleError

DECODE = (
    b"[2026-12-01 04:29:25 TP0] Decode batch, #running-req: 1, #token: 429, token usage: 0.00, accept len: 1.88, "
    b"accept rate: 0.44, cuda graph: True, gen throughput (token/s): 52.56, #queue-req: 0\n"
)
READY = b"[2026-12-01 04:29:24] The server is fired up and ready to roll!\n"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "engine.log"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(logtail, "POLL_PERIOD_S", 0.01)


async def until(condition):
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_log_that_comes_late_and_grows_in_pieces(path):
    events = []
    tail = LogTail(path, on_event=events.append)
    tail.start()
    await asyncio.sleep(0.03)
    assert tail.note == ""
    with path.open("ab", buffering=0) as file:
        file.write(READY + DECODE[:70])
        await until(lambda: tail.state.ready)
        file.write(DECODE[70:])
        await until(lambda: tail.state.decode_lines == 1)
    assert [event.kind for event in events if event.kind in {Kind.READY, Kind.DECODE}] == [Kind.READY, Kind.DECODE]
    assert events[-1].batch.accept_len == 1.88
    assert tail.tail(1)[0].startswith("[2026-12-01 04:29:25 TP0] Decode batch")
    await tail.stop()


@pytest.mark.parametrize("times", [1, 2, 3, 9])
async def test_a_log_that_was_cut_and_has_grown_past_it_between_two_looks(path, times):
    """The size alone does not tell: as long as before, or longer, and another text."""
    path.write_bytes(DECODE * 2)
    tail = LogTail(path)
    await tail.drain()
    path.write_bytes((DECODE.replace(b"52.56", b"61.25")) * times + b"[2026-12-01 04:29:26] last\n")
    await tail.drain()
    assert tail.state.decode_lines == 2 + times
    assert tail.tail(1) == ("[2026-12-01 04:29:26] last",)
    assert "cut or replaced" in tail.note


async def test_cut_and_replaced_logs_are_followed_on_and_told(path):
    path.write_bytes(DECODE * 3)
    tail = LogTail(path)
    tail.start()
    await until(lambda: tail.state.decode_lines == 3)
    os.truncate(path, 0)
    await until(lambda: tail._offset == 0)
    with path.open("ab") as file:
        file.write(DECODE)
    await until(lambda: tail.state.decode_lines == 4)
    assert "cut or replaced" in tail.note
    path.unlink()
    await until(lambda: "is gone" in tail.note)
    path.write_bytes(DECODE * 2)
    await until(lambda: tail.state.decode_lines == 6)
    await tail.stop()


async def test_the_last_line_counts_without_an_end(path):
    path.write_bytes(READY.rstrip())
    tail = LogTail(path)
    await tail.drain()
    assert tail.state.ready


async def test_a_long_log_of_a_former_agent_is_read_at_both_ends(path, monkeypatch):
    monkeypatch.setattr(logtail, "CATCH_UP_BYTES", 4096)
    path.write_bytes(READY + DECODE * 500 + b"[2026-12-01 05:00:00] SIGTERM received. draining\n")
    events = []
    tail = LogTail(path, on_event=events.append)
    await tail.catch_up()
    assert tail.state.ready
    assert tail.state.stopping
    assert tail.state.decode_lines < 100
    assert "skipped" in tail.note
    assert [event.kind for event in events] == [Kind.DECODE]


async def test_a_flood_skips_lines_and_leaves_the_loop_free(path, monkeypatch):
    monkeypatch.setattr(logtail, "MOST_BEHIND_BYTES", 100_000)
    path.write_bytes(DECODE * 5000)
    tail = LogTail(path)
    tail.start()
    longest, last = 0.0, asyncio.get_running_loop().time()
    async with asyncio.timeout(5):
        while tail._offset < path.stat().st_size:
            await asyncio.sleep(0)
            now = asyncio.get_running_loop().time()
            longest, last = max(longest, now - last), now
    assert "skipped to keep up" in tail.note
    assert longest < 0.5
    await tail.stop()


async def test_secrets_and_control_characters_never_leave(path):
    path.write_bytes(b"key s3cr3t-value \x1b[31mred\x07 \xe2\x80\xae\n")
    tail = LogTail(path, secrets=frozenset({"s3cr3t-value"}))
    await tail.catch_up()
    (line,) = tail.tail()
    assert "s3cr3t" not in line
    assert line.isprintable()
    page = logpage.page(path, secrets=["s3cr3t-value"])
    assert page["lines"] == [line]


# ------------------------------------------------------------------------------------------------- pages


def test_pages_meet_without_gap_or_overlap(path):
    lines = [f"line {number}" for number in range(1000)]
    path.write_text("\n".join(lines) + "\n")
    newest = logpage.page(path, limit=10)
    assert newest["lines"] == lines[-10:]
    assert newest["end"] == newest["size"]
    before = logpage.page(path, before=newest["start"], limit=10)
    assert before["lines"] == lines[-20:-10]
    assert before["end"] == newest["start"]
    after = logpage.page(path, after=before["start"], limit=20)
    assert after["lines"] == lines[-20:]
    assert logpage.page(path, after=newest["end"])["lines"] == []
    assert logpage.page(path, before=0)["lines"] == []


def test_a_line_that_is_being_written_is_held_back(path, monkeypatch):
    path.write_bytes(b"one\ntwo\nthr")
    page = logpage.page(path)
    assert (page["lines"], page["end"]) == (["one", "two"], 8)
    monkeypatch.setattr(logpage, "UNFINISHED_S", -1.0)
    assert logpage.page(path)["lines"] == ["one", "two", "thr"]


def test_progress_bars_show_their_last_state(path):
    path.write_bytes(b"load  0%\rload 50%\rload 100%\nnext\n")
    assert logpage.page(path)["lines"] == ["load 100%", "next"]


def test_no_log_is_one_line(tmp_path):
    with pytest.raises(ConsoleError, match="cannot be read - No such file"):
        logpage.page(tmp_path / "missing")


@given(
    raw=st.binary(max_size=300) | st.text("a\n\r ", max_size=300).map(str.encode),
    at=st.integers(-5, 400),
    limit=st.integers(-1, 50),
)
def test_any_bytes_make_a_page(tmp_path_factory, raw, at, limit):
    path = tmp_path_factory.mktemp("log") / "any.log"
    path.write_bytes(raw)
    for page in (
        logpage.page(path, limit=limit),
        logpage.page(path, before=at, limit=limit),
        logpage.page(path, after=at, limit=limit),
    ):
        assert 0 <= page["start"] <= page["end"] <= page["size"] == len(raw)
        categories = {unicodedata.category(character) for line in page["lines"] for character in line}
        assert not categories & {"Cc", "Cs", "Zl", "Zp"}, "no control character, half a pair or line end"


@given(st.lists(st.sampled_from([b"a\n", b"bb\n", b"\n", b"c" * 50 + b"\n"]), max_size=30), st.integers(1, 7))
def test_walking_forward_sees_every_line_once(tmp_path_factory, lines, limit):
    path = tmp_path_factory.mktemp("log") / "walk.log"
    path.write_bytes(b"".join(lines))
    seen, at = [], 0
    while (page := logpage.page(path, after=at, limit=limit))["lines"]:
        assert page["start"] == at
        seen += page["lines"]
        at = page["end"]
    assert seen == [line.decode().rstrip("\n") for line in lines]
