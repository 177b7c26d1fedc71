"""Commands to the probe: all ranks answer, or one line says which did not and why."""

import asyncio
import json
import time

import pytest

from console.engine.http import EngineUnreachable
from console.engine.live import LiveControl
from console.errors import ConsoleError

FINE = {"ok": True, "message": "done", "seconds": {"total": 0.5}, "checksum": "c"}


class Ranks:
    """Stands for HTTP and all ranks: answers each command as ``answers`` says, by rank."""

    def __init__(self, folder, answers):
        self.folder = folder
        self.answers = answers
        self.payloads = []
        self.posts = 0
        self.broken = 0
        self.left_s = 0.0

    async def set_internal_state(self, values, *, deadline_s=60.0):
        self.posts += 1
        if self.posts <= self.broken:
            raise EngineUnreachable("no answer", why="Server disconnected")
        (number,) = values.values()
        self.payloads.append(json.loads((self.folder / f"cmd-{number}.json").read_text()))
        answers = self.answers(self.payloads[-1]) if callable(self.answers) else self.answers
        for rank, answer in answers.items():
            text = answer if isinstance(answer, str) else json.dumps(answer)
            (self.folder / f"ack-{number}-{rank}.json").write_text(text)
        return [any(isinstance(answer, dict) and answer["ok"] for answer in answers.values())]


@pytest.fixture
def live(tmp_path, monkeypatch):
    monkeypatch.setattr("console.engine.live.QUICK_S", 0.3)

    def make(answers, tp=2):
        ranks = Ranks(tmp_path, answers)
        return LiveControl(ranks, tmp_path, tp), ranks

    return make


def feed(folder, tp=2, at_s=None, resident=(), **fields):
    for rank in range(tp):
        message = {
            "schema": 1, "rank": rank, "pid": 1, "at_s": time.time() if at_s is None else at_s, "tp": tp, "depth": 3,
            "capabilities": {"depth_live": True, "swap_live": True, "candidate_steps": [0, 3]},
            "drafter": {"path": "a", "resident": list(resident)}, **fields,
        }  # fmt: skip
        (folder / f"probe-{rank}.json").write_text(json.dumps(message))


async def test_a_depth_is_set_when_all_ranks_say_so(live, tmp_path):
    control, ranks = live({0: {**FINE, "seconds": {"total": 0.1}}, 1: FINE})
    assert await control.set_depth(3) == "done"
    assert ranks.payloads == [{"op": "depth", "depth": 3}]
    assert control.last.seconds == {"total": 0.5}  # of the slowest
    assert control.last.checksums == {0: "c", 1: "c"}
    assert list(tmp_path.iterdir()) == []


async def test_depth_goes_back_to_sglang(live):
    control, ranks = live({0: FINE, 1: FINE})
    await control.set_depth(None)
    assert ranks.payloads == [{"op": "depth", "depth": None}]


@pytest.mark.parametrize(
    ("answers", "line"),
    [
        ({0: FINE, 1: {**FINE, "ok": False, "message": "no room"}}, "cannot set depth 3 - rank 1: no room"),
        (
            {rank: {**FINE, "ok": False, "message": "not\x1b[31m built\n"} for rank in (0, 1)},
            "cannot set depth 3 - not built",
        ),
        ({0: {**FINE, "ok": False, "message": "a"}, 1: {**FINE, "ok": False, "message": "b"}}, "rank 0: a; rank 1: b"),
        ({0: FINE}, "rank 1 has not answered"),
        ({0: FINE, 1: "{broken"}, "rank 1 has not answered"),
        ({}, "no rank has answered"),
    ],
)
async def test_one_rank_that_does_not_is_named(live, tmp_path, answers, line):
    control, _ = live(answers)
    with pytest.raises(ConsoleError) as caught:
        await control.set_depth(3)
    assert line in caught.value.line
    assert control.last is None
    assert list(tmp_path.iterdir()) == []


async def test_a_rank_may_answer_late(live, tmp_path):
    control, _ = live({0: FINE})

    async def later():
        while not (found := list(tmp_path.glob("ack-*-0.json"))):
            await asyncio.sleep(0.005)
        number = found[0].name.split("-")[1]
        await asyncio.sleep(0.05)
        (tmp_path / f"ack-{number}-1.json").write_text(json.dumps(FINE))

    task = asyncio.create_task(later())
    assert await control.set_depth(3) == "done"
    await task


async def test_a_broken_connection_is_tried_once_more_with_the_same_number(live):
    control, ranks = live({0: FINE, 1: FINE})
    ranks.broken = 1
    assert await control.set_depth(3) == "done"
    assert (ranks.posts, len(ranks.payloads)) == (2, 1)
    ranks.broken, ranks.posts = 5, 0
    with pytest.raises(EngineUnreachable):
        await control.set_depth(3)
    assert ranks.posts == 2


async def test_a_swap_reads_first_and_then_exchanges(live, tmp_path):
    def answers(payload):
        answer = {**FINE, "seconds": {"read" if payload["op"] == "stage" else "load": 1.0}}
        return {0: answer, 1: answer}

    control, ranks = live(answers)
    path = str(tmp_path.resolve())
    assert await control.swap(str(tmp_path), resident=2, resident_bytes=7) == "done, checksum c c"
    assert ranks.payloads == [
        {"op": "stage", "path": path},
        {"op": "swap", "path": path, "options": {"resident": 2, "resident_bytes": 7}},
    ]
    assert control.last.seconds == {"stage read": 1.0, "load": 1.0}


async def test_a_resident_drafter_is_not_read_again(live, tmp_path):
    feed(tmp_path, resident=[str(tmp_path.resolve())])
    control, ranks = live({0: FINE, 1: FINE})
    await control.swap(str(tmp_path))
    assert [payload["op"] for payload in ranks.payloads] == ["swap"]


async def test_a_drafter_that_cannot_be_read_is_never_exchanged(live):
    answer = {**FINE, "ok": False, "message": "no such folder"}
    control, ranks = live({0: answer, 1: answer})
    with pytest.raises(ConsoleError, match="cannot read drafter /nowhere - no such folder"):
        await control.swap("/nowhere")
    assert [payload["op"] for payload in ranks.payloads] == ["stage", "unstage"]


async def test_a_folder_that_cannot_be_written_says_so(live, tmp_path):
    control, ranks = live({})
    (tmp_path / "gone").mkdir()
    control = LiveControl(ranks, tmp_path / "gone", 1)
    (tmp_path / "gone").rmdir()
    with pytest.raises(ConsoleError, match="cannot write into"):
        await control.ping()
    assert ranks.posts == 0


async def test_two_changes_wait_for_each_other_and_have_numbers_of_their_own(live):
    control, ranks = live({0: FINE, 1: FINE})
    await asyncio.gather(control.set_depth(1), control.set_depth(2), control.ping())
    assert len(ranks.payloads) == 3


def test_capabilities_come_from_the_newest_feed(live, tmp_path):
    control, _ = live({})
    assert control.capabilities().present is False
    assert (control.depth(), control.candidate_steps) == ((None, None), ())
    feed(tmp_path, pinned=3)
    found = control.capabilities()
    assert (found.depth_live, found.swap_live) == (True, True)
    assert (control.depth(), control.candidate_steps) == ((3, 3), (0, 3))


def test_a_rank_that_is_not_there_allows_no_change(live, tmp_path):
    control, _ = live({}, tp=3)
    feed(tmp_path, tp=2)
    found = control.capabilities()
    assert (found.present, found.depth_live, found.swap_live) == (True, False, False)
    assert found.swap_why == "the probe answers on 2 of 3 ranks"


def test_an_old_feed_is_silence(live, tmp_path):
    control, _ = live({})
    feed(tmp_path, at_s=time.time() - 60)
    found = control.capabilities()
    assert (found.present, found.why, found.depth_why) == (False, "the probe is silent", "the probe is silent")
