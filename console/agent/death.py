"""Why an engine ended: the log's own words where it has some, else what the kernel says."""

from __future__ import annotations

import signal
from pathlib import Path

from console import rig
from console.engine.log import LogState

VMSTAT = Path("/proc/vmstat")


def oom_kills() -> int | None:
    """How often the kernel has killed for lack of memory since boot; ``None`` where it does not tell."""
    try:
        for line in VMSTAT.read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except (OSError, ValueError):
        return None
    return None


def failure(log: LogState, exit_code: int | None, *, oom_kills_before: int | None = None, why: str = "") -> rig.Failure:
    """The cause to show.

    Args:
        log: what the engine's log tells.
        exit_code: of the launcher; negative for a signal; ``None`` when nobody could wait for it.
        oom_kills_before: the kernel's count at launch.
        why: what else is known of how it was found to be gone.
    """
    if log.failures:
        return log.failures[0]
    now = oom_kills()
    if now is not None and oom_kills_before is not None and now > oom_kills_before:
        return rig.Failure(
            "killed",
            "the kernel has killed for lack of host memory since this engine was started",
            advice="see dmesg for the process; fewer ranks, a smaller --max-total-tokens or less beside it on this machine",
        )
    if exit_code is not None and exit_code < 0:
        name = signal_name(-exit_code)
        return rig.Failure(
            "killed",
            f"the launcher was killed by {name}; the log says nothing of it",
            advice="somebody on this machine did it, or the kernel for lack of memory: see dmesg",
        )
    if not why and exit_code is None:
        why = "the launcher is gone; how it ended is not known, because another agent had started it"
    ended = why or f"the launcher ended with exit code {exit_code}"
    last = log.last_error.messages[-1] if log.last_error is not None and log.last_error.messages else ""
    return rig.Failure(
        "ended", f"{ended}; the log names no cause", advice=f"the last error in the log: {last}" if last else ""
    )


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
