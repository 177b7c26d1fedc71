"""The engine's log: Python logging's own prefix, on stderr, one line at a time."""

from __future__ import annotations

import os
import sys
import time

STDERR = 2


def write(text: str) -> None:
    """Write bytes to stderr at once; a log nobody reads any more is no reason to die."""
    try:
        os.write(STDERR, text.encode())
    except OSError:
        return


class Log:
    """Prints lines as SGLang's loggers do: ``[2026-12-01 01:01:42 TP0] text``.

    Args:
        ranked: whether rank tags are printed (SGLang omits them at one rank).
    """

    def __init__(self, *, ranked: bool) -> None:
        self._ranked = ranked

    def main(self, text: str) -> None:
        """A line of the launcher."""
        write(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}] {text}\n")

    def rank(self, text: str, rank: int = 0) -> None:
        """A line of one scheduler."""
        tag = f" TP{rank}" if self._ranked else ""
        write(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}{tag}] {text}\n")

    def raw(self, text: str) -> None:
        """A progress bar or a traceback: no prefix."""
        write(text + "\n")


def truncate() -> None:
    """Cut the log file to nothing, as a careless log rotation does. Nothing happens when stderr is no file."""
    try:
        os.ftruncate(sys.stderr.fileno(), 0)
    except OSError:
        return
