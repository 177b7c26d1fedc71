"""The thread between agent and app: reads, reports a loss, begins again, ends when told."""

from __future__ import annotations

import threading
import time

from textual.message import Message

from console.errors import ConsoleError, ExitCode
from console.screens.feed import Feed, Fresh, Lost
from tests.app.fake import FakeAgent, serving


class Box:
    """Collects what the feed posts."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.came = threading.Condition()

    def post(self, message: Message) -> None:
        with self.came:
            self.messages.append(message)
            self.came.notify_all()

    def wait(self, count: int) -> list[Message]:
        with self.came:
            assert self.came.wait_for(lambda: len(self.messages) >= count, timeout=5), self.messages
            return list(self.messages)


def feed(agent: FakeAgent, box: Box) -> Feed:
    return Feed(agent.connect, box.post, pauses_s=(0.0, 0.01))


def kinds(messages: list[Message]) -> list[str]:
    return [type(message).__name__ for message in messages]


def test_snapshots_are_posted_and_the_stop_ends_the_thread() -> None:
    agent, box = FakeAgent(), Box()
    running = feed(agent, box)
    running.start()
    agent.push(serving(seq=1))
    agent.push(serving(seq=2))
    messages = box.wait(2)
    assert [message.snapshot.seq for message in messages if isinstance(message, Fresh)] == [1, 2]
    agent.push(None)
    running.stop()
    assert not running._thread.is_alive()


def test_a_broken_stream_is_reported_and_made_anew() -> None:
    agent, box = FakeAgent(), Box()
    running = feed(agent, box)
    running.start()
    agent.push(serving(seq=1))
    agent.push(ConnectionResetError("reset by peer"))
    agent.push(serving(seq=2))
    messages = box.wait(3)
    assert kinds(messages[:3]) == ["Fresh", "Lost", "Fresh"]
    assert messages[1].why == "ConnectionResetError: reset by peer"  # type: ignore[attr-defined]
    assert agent.connects == 2
    agent.push(None)
    running.stop()


def test_no_agent_is_tried_again_and_says_why_once_each() -> None:
    agent, box = FakeAgent(refuse_connects=3), Box()
    running = feed(agent, box)
    running.start()
    agent.push(serving())
    messages = box.wait(4)
    assert kinds(messages[:4]) == ["Lost", "Lost", "Lost", "Fresh"]
    assert messages[0].why == "no agent answers - connection refused"  # type: ignore[attr-defined]
    agent.push(None)
    running.stop()


def test_the_error_travels_with_the_loss() -> None:
    box = Box()
    error = ConsoleError("which rig?", code=ExitCode.USAGE)

    def connect() -> FakeAgent:
        raise error

    running = Feed(connect, box.post, pauses_s=(0.01,))
    running.start()
    lost = box.wait(1)[0]
    assert isinstance(lost, Lost)
    assert lost.error is error
    running.stop()


def test_stop_does_not_wait_for_an_agent_that_hangs() -> None:
    box = Box()
    hung = threading.Event()

    def connect() -> FakeAgent:
        hung.wait(20)
        raise ConsoleError("late")

    running = Feed(connect, box.post)
    running.start()
    before = time.monotonic()
    running.stop(timeout_s=0.1)
    assert time.monotonic() - before < 2
    hung.set()


def test_a_newer_snapshot_takes_the_place_of_an_older_one_and_of_nothing_else() -> None:
    old, new, lost = Fresh(serving(seq=1)), Fresh(serving(seq=2)), Lost("x")
    assert old.can_replace(new)
    assert not old.can_replace(lost)
    assert not lost.can_replace(new)
