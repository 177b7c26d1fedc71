"""Faults that tests ask for. Refused unless ``SGLANG_CONSOLE_PROBE_FAULTS=1``."""

from __future__ import annotations

import os
from typing import Any

from sglang_console_probe.guard import Hook
from sglang_console_probe.swap import Outcome

VARIABLE = "SGLANG_CONSOLE_PROBE_FAULTS"
ATTACH_VARIABLE = "SGLANG_CONSOLE_PROBE_FAULT_ATTACH"
"""``1``: the attachment itself fails."""


def allowed() -> bool:
    """Whether this engine is a test's."""
    return os.environ.get(VARIABLE) == "1"


def fail_attach() -> None:
    """Raise when a test asked for it."""
    if allowed() and os.environ.get(ATTACH_VARIABLE) == "1":
        raise RuntimeError("injected fault")


class Faults:
    """Sets and clears them.

    Args:
        rank: this one; a fault may be meant for one rank only.
        hooks: by name.
        stages: loses time on request, or ``None``.
        swap: refuses on request.
    """

    def __init__(self, rank: int, hooks: dict[str, Hook], stages: Any, swap: Any) -> None:
        self._rank = rank
        self._hooks = hooks
        self._stages = stages
        self._swap = swap
        self._muted: set[str] = set()

    def execute(self, payload: dict[str, Any], *_: Any) -> Outcome:
        """``{"op": "fault", "kind": "raise" | "refuse" | "slow" | "mute" | "clear", "rank": R, ...}``."""
        if not allowed():
            return Outcome(ok=False, message=f"faults are refused without {VARIABLE}=1")
        if payload.get("rank") not in (None, self._rank):
            return Outcome(ok=True, message="another rank's")
        kind = payload.get("kind")
        if kind == "raise" and payload.get("hook") in self._hooks:
            self._hooks[payload["hook"]].trap = True
        elif kind == "refuse":
            self._swap.refuse[str(payload.get("phase", "ready"))] = "a test asked this rank to refuse"
        elif kind == "slow" and self._stages is not None:
            self._stages.slow_s = float(payload.get("ms", 0)) / 1e3
        elif kind == "mute":
            self._mute(on=bool(payload.get("on")))
        elif kind == "clear":
            self._swap.refuse.clear()
            if self._stages is not None:
                self._stages.slow_s = 0.0
        else:
            return Outcome(ok=False, message=f"no such fault: {kind!r}")
        return Outcome(ok=True, message="set")

    def _mute(self, *, on: bool) -> None:
        """Everything but the commands stops, or what was stopped so goes on: to measure what the probe costs."""
        for name, hook in self._hooks.items():
            if on and hook.on and name != "commands":
                hook.disable("muted by a test")
                self._muted.add(name)
            elif not on and name in self._muted:
                hook.enable()
        if not on:
            self._muted.clear()
