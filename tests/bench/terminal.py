"""A terminal that only counts and looks: what a program writes, how much, and when a text first stands there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import termios
import threading
import time
from typing import Self

ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[P^_][^\x1b]*\x1b\\|[()][A-Z0-9]|.)")
KEPT_BYTES = 4 * 1024 * 1024


class Terminal:
    """Runs one program on a pseudo terminal.

    Args:
        argv: the program.
        env: its environment.
        columns: width in cells.
        rows: height in cells.
    """

    def __init__(self, argv: list[str], env: dict[str, str], columns: int = 120, rows: int = 36) -> None:
        self.started_s = time.perf_counter()
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            try:
                os.execvpe(argv[0], argv, env)
            finally:
                os._exit(127)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.bytes = 0
        self._text = b""
        self._times: list[tuple[int, float]] = []
        """Length of the text so far, and when it got that long."""
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._fd, 65536)
            except OSError:
                return
            if not data:
                return
            with self._lock:
                self.bytes += len(data)
                if len(self._text) < KEPT_BYTES:
                    self._text += data
                    self._times.append((len(self._text), time.perf_counter()))

    def text(self) -> str:
        """What was written so far, without escape sequences."""
        with self._lock:
            return ESCAPES.sub(b"", self._text).decode(errors="replace")

    def seconds_until(self, pattern: re.Pattern[str], timeout_s: float = 20) -> float | None:
        """Seconds from the start to the first read after which ``pattern`` stands in the text; ``None`` when it never does."""
        deadline = time.perf_counter() + timeout_s
        seen = 0
        while time.perf_counter() < deadline:
            with self._lock:
                times, raw = list(self._times), self._text
            for length, at_s in times[seen:]:
                if pattern.search(ESCAPES.sub(b"", raw[:length]).decode(errors="replace")):
                    return at_s - self.started_s
            seen = len(times)
            if not self._reader.is_alive():
                return None
            time.sleep(0.005)
        return None

    def send(self, keys: bytes) -> None:
        """Type keys."""
        os.write(self._fd, keys)

    def close(self) -> None:
        """End the program: its terminal is gone, then SIGTERM, then SIGKILL."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)
            deadline = time.monotonic() + 3
            while time.monotonic() < deadline:
                with contextlib.suppress(ChildProcessError):
                    if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                        time.sleep(0.02)
                        continue
                with contextlib.suppress(OSError):
                    os.close(self._fd)
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
