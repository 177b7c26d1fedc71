"""The thread between the agent's stream and the app: connects, reads, and begins again after a loss."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from textual.message import Message

from console.errors import ConsoleError
from console.rig import Snapshot
from console.screens.agent import Agent, CannotBeginError, Connect

PAUSES_S = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0)
"""Pauses before each new attempt; the last one is repeated."""


class Fresh(Message):
    """A snapshot has arrived. A newer one takes its place in the queue, so a slow terminal falls behind by one at most."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        super().__init__()

    def can_replace(self, message: Message) -> bool:
        """Whether ``message``, which came later, makes this one superfluous."""
        return isinstance(message, Fresh)


class Lost(Message):
    """The agent cannot be reached; the next attempt follows by itself."""

    def __init__(self, why: str, error: ConsoleError | None = None) -> None:
        self.why = why
        self.error = error
        super().__init__()

    def can_replace(self, message: Message) -> bool:
        """Only the newest reason matters."""
        return isinstance(message, Lost)


@runtime_checkable
class _Closable(Protocol):
    def close(self) -> None: ...


class Feed:
    """Reads the stream in a daemon thread and posts what happens.

    Args:
        connect: see :data:`~console.screens.agent.Connect`.
        post: takes a message in any thread.
        pauses_s: see :data:`PAUSES_S`.
    """

    def __init__(
        self, connect: Connect, post: Callable[[Message], object], pauses_s: tuple[float, ...] = PAUSES_S
    ) -> None:
        self._connect = connect
        self._post = post
        self._pauses_s = pauses_s
        self._ended = threading.Event()
        self._stream: object = None
        self._worked = False
        self._thread = threading.Thread(target=self._run, name="agent-feed", daemon=True)
        self.agent: Agent | None = None
        """The connection while there is one; kept after a loss until the next one, so that a call says what is wrong."""
        self.received_s = time.monotonic()
        """When the last snapshot came, on the monotonic clock."""

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self, timeout_s: float = 1.0) -> None:
        """Stop reading. The thread ends by itself when the agent is slow to let go."""
        self._ended.set()
        self._close()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def interrupt(self) -> None:
        """Give the connection up; a new one is made."""
        self._close()

    def _close(self) -> None:
        stream = self._stream
        if isinstance(stream, _Closable):
            # A generator that runs in its thread refuses; its socket's end will stop it.
            with contextlib.suppress(ValueError, OSError, RuntimeError):
                stream.close()

    def _run(self) -> None:
        failures = 0
        while not self._ended.is_set():
            self._worked = False
            known: ConsoleError | None = None
            try:
                self._read()
                why = "the agent ended its stream"
            except ConsoleError as error:
                known = error
                why = " - ".join(part for part in (error.what, error.why) if part)
            except Exception as error:  # noqa: BLE001 - a feed that dies silently shows old figures as if they were new
                why = f"{type(error).__name__}: {error}"
            finally:
                self._close()
                self._stream = None
            if self._ended.is_set():
                return
            self._post(Lost(why, known))
            if isinstance(known, CannotBeginError):
                return
            failures = 0 if self._worked else failures + 1
            self._ended.wait(self._pauses_s[min(failures, len(self._pauses_s) - 1)])

    def _read(self) -> None:
        """Read one connection to its end."""
        self.agent = agent = self._connect()
        self._stream = stream = agent.stream()
        for snapshot in stream:
            if self._ended.is_set():
                return
            self._worked = True
            self.received_s = time.monotonic()
            self._post(Fresh(snapshot))
