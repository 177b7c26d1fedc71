"""Stand-ins for SGLang's worker processes: forked, titled as SGLang titles them, asleep.

They die with the launcher (PR_SET_PDEATHSIG, as SGLang's own do), and the launcher dies when one of them does.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15


def set_title(title: str) -> None:
    """Overwrite this process's command line and name, the way setproctitle does; only Linux has the means.

    The kernel shows the memory between ``arg_start`` and ``arg_end`` (fields 48 and 49 of /proc/self/stat, proc(5)) as
    the command line.
    """
    if not sys.platform.startswith("linux"):
        return
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    room = end - start
    if start and room > 1:
        text = title.encode()[: room - 1]
        ctypes.memmove(start, text + b"\0" * (room - len(text)), room)
    ctypes.CDLL(None).prctl(PR_SET_NAME, title.encode()[:15], 0, 0, 0)


def _sleep_forever(title: str, launcher: int) -> None:
    """Life of a stand-in: a title, a parent to die with, nothing else."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    set_title(title)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while os.getppid() == launcher:
        signal.pause()


class Workers:
    """The schedulers and the detokenizer of one launch. Fork before any thread exists."""

    def __init__(self, tp: int) -> None:
        self.schedulers = [
            self._fork(f"sglang::scheduler_TP{rank}" if tp > 1 else "sglang::scheduler") for rank in range(tp)
        ]
        self.detokenizer = self._fork("sglang::detokenizer")

    @staticmethod
    def _fork(title: str) -> int:
        launcher = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                _sleep_forever(title, launcher)
            finally:
                os._exit(0)
        return pid

    def crashed(self) -> tuple[str, int, int] | None:
        """The first worker that ended by itself: SGLang's name for it, its pid and exit code."""
        names = {pid: f"scheduler_{rank}" for rank, pid in enumerate(self.schedulers)}
        names[self.detokenizer] = "detokenizer"
        for pid, name in names.items():
            try:
                ended, status = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue
            if ended:
                return name, pid, os.waitstatus_to_exitcode(status)
        return None

    def kill(self) -> None:
        """Kill them all and reap them."""
        for pid in (*self.schedulers, self.detokenizer):
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                continue
