"""The feed: one message a rank, four times a second, and the newest one in a file. All in a thread of its own."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from sglang_console_probe.files import write_whole
from sglang_console_probe.guard import Hook, reason

logger = logging.getLogger("sglang_console_probe")

PERIOD_S = 0.25
FILE_EVERY = 4
"""Messages to one file: once a second."""
QUEUED = 8
"""Messages kept for a subscriber that is slow; more are dropped, for the next one holds the same counters."""


class Publisher:
    """Sends what ``compose`` says.

    Args:
        folder: shared with the agent.
        rank: names socket and file.
        compose: makes a message; called in the publisher's thread.
    """

    def __init__(self, folder: Path, rank: int, compose: Callable[[int], dict[str, Any]]) -> None:
        self.hook = Hook("feed")
        self._folder = folder
        self._rank = rank
        self._compose = compose
        self._wake = threading.Event()
        self._socket: Any = None
        self._seq = 0
        self._thread: threading.Thread | None = None
        self._stopped = False

    def start(self) -> None:
        """Begin. Without a socket the file goes on alone."""
        try:
            self._socket = self._bind()
            self.hook.enable()
        except Exception as error:
            self.hook.disable(f"file only: {reason(error)}")
            logger.warning("The console's probe publishes by file only: %s", reason(error))
        self._thread = threading.Thread(target=self._run, name="console-probe", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close the socket. The engine never does: the thread ends with its process."""
        self._stopped = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        if self._socket is not None:
            self._socket.context.destroy(linger=0)

    def soon(self) -> None:
        """Something an operator waits for has changed."""
        self._wake.set()

    def _bind(self) -> Any:
        import zmq

        path = self._folder / f"probe-{self._rank}.sock"
        path.unlink(missing_ok=True)
        socket = zmq.Context(io_threads=1).socket(zmq.PUB)
        socket.setsockopt(zmq.SNDHWM, QUEUED)
        socket.setsockopt(zmq.LINGER, 0)
        socket.bind(f"ipc://{path}")
        return socket

    def _run(self) -> None:
        failures = 0
        while failures < 3:
            changed = self._wake.wait(PERIOD_S)
            self._wake.clear()
            if self._stopped:
                return
            try:
                self.hook.spring()
                self._publish(to_file=changed or self._seq % FILE_EVERY == 0)
                failures = 0
            except Exception as error:
                failures += 1
                logger.warning("The console's probe could not publish: %s", reason(error), exc_info=error)
        self.hook.disable("three messages in a row could not be made")
        with suppress(Exception):
            self._publish(to_file=True)

    def _publish(self, *, to_file: bool) -> None:
        self._seq += 1
        body = json.dumps(self._compose(self._seq), separators=(",", ":")).encode()
        if self._socket is not None:
            import zmq

            with suppress(zmq.Again):
                self._socket.send(body, zmq.NOBLOCK)
        if to_file:
            with suppress(OSError):  # a full disk takes the file, not the feed
                write_whole(self._folder / f"probe-{self._rank}.json", body)
