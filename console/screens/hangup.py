"""Ends the console when its terminal is gone.

A closed terminal is told by SIGHUP, but not always: the session's leader may be a shell that dies without passing it on. What
is left then reads end-of-file for ever and cannot write. The console holds nothing that could be lost, so it ends at once.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable

HANGUP_EXIT_CODE = 129
"""As a shell reports a process that SIGHUP ended."""


def end_with_the_terminal(descriptor: int = 0, end: Callable[[int], object] = os._exit) -> threading.Thread:
    """Watch a terminal from a thread that sleeps until it hangs up, then end the process.

    Args:
        descriptor: of the terminal.
        end: ends the process with an exit code; the main thread may be stuck in a write, so nothing is asked of it.
    """
    thread = threading.Thread(target=_watch, args=(descriptor, end), name="terminal-hangup", daemon=True)
    thread.start()
    return thread


def _watch(descriptor: int, end: Callable[[int], object]) -> None:
    poll = select.poll()
    try:
        poll.register(descriptor, 0)  # no event asked for: hang-up and error are always told
        while True:
            if any(flags & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, flags in poll.poll()):
                break
    except (OSError, ValueError):
        return
    end(HANGUP_EXIT_CODE)
