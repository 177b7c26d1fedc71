"""A real console on a pseudo terminal that is its controlling one, started without forking this process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading

from tests.bench.terminal import ESCAPES
from tests.faults.rig import FaultRig, lives, until

KEPT_BYTES = 2 << 20


class ConsoleTerminal:
    """``console --rig NAME`` as an operator has it open.

    Args:
        on: the rig.
    """

    def __init__(self, on: FaultRig) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 140, 0, 0))
        try:
            # setsid gives the session a controlling terminal: its close is a SIGHUP, as of an ssh connection.
            self._process = subprocess.Popen(
                ["setsid", "--ctty", sys.executable, "-m", "console", "--rig", on.name],
                stdin=slave,
                stdout=slave,
                stderr=slave,
                env=on.env,
                close_fds=True,
            )
        finally:
            os.close(slave)
        self.known = on.note(self._process.pid)
        self._text = b""
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:
                return
            if not data:
                return
            with self._lock:
                self._text = (self._text + data)[-KEPT_BYTES:]

    def shows(self, words: str) -> bool:
        """Whether the words were drawn since the last :meth:`forget`."""
        with self._lock:
            return words in ESCAPES.sub(b"", self._text).decode(errors="replace")

    def forget(self) -> None:
        """Look at what is drawn from now on only."""
        with self._lock:
            self._text = b""

    def until_shows(self, words: str, timeout_s: float = 20.0) -> float:
        """Seconds until the words are drawn."""
        return until(lambda: self.shows(words), f"the console shows {words!r}", timeout_s)

    def hang_up(self) -> None:
        """Take the terminal away."""
        with contextlib.suppress(OSError):
            os.close(self._master)
        self._master = -1

    def until_ended(self, timeout_s: float = 5.0) -> float:
        """Seconds until the console has ended."""

        def ended() -> bool:
            return self._process.poll() is not None or not lives(self.known)

        return until(ended, "the console has ended", timeout_s, pause_s=0.005)

    def close(self) -> None:
        """End it."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(5)
        if self._master >= 0:
            self.hang_up()
        self._reader.join(2)
