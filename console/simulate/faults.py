"""What the simulated engine can be told to do wrong: by flag, by environment, or while it runs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

KINDS: dict[str, str] = {
    "crash": "the launcher kills itself with SIGKILL (argument: seconds from now)",
    "scheduler_crash": "one stand-in scheduler is killed (argument: rank)",
    "hang": "the HTTP server takes connections and never answers; decoding stops",
    "oom_at_graph_capture": "the start dies of GPU memory while capturing graphs",
    "drafter_wrong_shape": "the start dies at graph capture, a live swap is refused",
    "lost_gpu": "a GPU falls off the bus (argument: index)",
    "throttle": "a GPU is clock-limited by its power cap (argument: index)",
    "silent": "the drafter's tokens are never accepted",
    "slow_rank": "one rank takes longer and everybody waits (argument: rank)",
    "metrics_garbage": "/metrics answers bytes that are no exposition format",
    "metrics_huge": "/metrics answers 64 MiB",
    "metrics_endless": "/metrics never ends",
    "loads_garbage": "/v1/loads answers broken JSON",
    "log_flood": "thousands of log lines a second (argument: lines a second)",
    "log_truncate": "the log file is cut to nothing",
    "ignore_sigterm": "SIGTERM does nothing",
    "slow_start": "the start takes longer (argument: factor)",
    "exit_code": "exit code of a clean stop (argument: code; -9: it kills itself, as 0.5.17 does)",
}
"""Every fault and its meaning."""


class FaultError(Exception):
    """A fault nobody knows, or an argument that is no number."""


@dataclass
class Faults:
    """The faults in force, by kind, with one number each."""

    active: dict[str, float] = field(default_factory=dict)
    since_s: dict[str, float] = field(default_factory=dict)
    """Monotonic seconds at which each came into force."""

    def __contains__(self, kind: str) -> bool:
        return kind in self.active

    def argument(self, kind: str, default: float) -> float:
        """The number given with ``kind``, or ``default`` when the fault is not in force."""
        return self.active.get(kind, default)

    def set(self, kind: str, argument: float) -> None:
        """Put a fault in force.

        Raises:
            FaultError: for a kind that does not exist.
        """
        if kind not in KINDS:
            raise FaultError(f"no fault {kind!r}; there are {', '.join(KINDS)}")
        self.active[kind] = argument
        self.since_s[kind] = time.monotonic()

    def overdue(self, kind: str) -> bool:
        """Whether a fault whose argument is a delay in seconds has to strike by now."""
        return kind in self.active and time.monotonic() - self.since_s[kind] >= self.active[kind]

    def clear(self, kind: str) -> None:
        """Take a fault back; "all" takes back every one."""
        if kind == "all":
            self.active.clear()
        self.active.pop(kind, None)


def parse_faults(texts: list[str]) -> Faults:
    """Faults from ``KIND`` or ``KIND:NUMBER`` texts.

    Raises:
        FaultError: for an unknown kind or an argument that is no number.
    """
    faults = Faults()
    for text in texts:
        kind, _, argument = text.strip().partition(":")
        try:
            faults.set(kind, float(argument or 0))
        except ValueError as error:
            raise FaultError(f"{text!r}: the argument is no number") from error
    return faults
