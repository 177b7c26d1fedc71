"""Rounds of speculation as the scheduler launches them.

Which follow one another, at which depth, and when depth changed.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from sglang_console_probe.guard import Hook, wrap_method

MARK = "sglang_console_round"
"""Attribute put on a batch result at its launch and read when the result is processed, which is one iteration later
under overlap: whether the round before was launched just before, requests, steps drafted."""
LONGEST_GAP_S = 1.0
"""Between the last result and a launch: longer means idle or paused, not a cycle."""
SWITCHES_KEPT = 16


class Rounds:
    """Follows ``forward_batch_generation`` of the speculative worker.

    Args:
        worker: the engine's speculative worker.
    """

    def __init__(self, worker: Any) -> None:
        self.hook = Hook("cycle")
        self.switches: deque[list[Any]] = deque(maxlen=SWITCHES_KEPT)
        self.pinned = False
        """Whether the console holds the depth: it then is the one who switches."""
        self.last_result_s = 0.0
        self._worker = worker
        self._depth = depth_of(worker)
        self._decoded = False

    def install(self) -> None:
        """Wrap the worker's method; say why when it has none."""
        try:
            wrap_method(self._worker, "forward_batch_generation", self.hook, self._before, self._after)
            self.hook.enable()
        except AttributeError as error:
            self.hook.disable(str(error))

    def interrupt(self) -> None:
        """What comes next does not follow what was: a command took its time between them."""
        self._decoded = False

    def _before(self, batch: Any, *_: Any, **__: Any) -> tuple[bool, int]:
        self.hook.spring()
        decode = not (batch.forward_mode.is_extend() or getattr(batch, "is_extend_in_batch", False))
        follows = decode and self._decoded and time.perf_counter() - self.last_result_s < LONGEST_GAP_S
        self._decoded = decode
        return follows, batch_size(batch) if decode else 0

    def _after(self, token: tuple[bool, int], result: Any) -> None:
        follows, batch = token
        if not batch:
            return
        depth = depth_of(self._worker)
        if depth != self._depth:
            self.switches.append([round(time.time(), 3), self._depth, depth, "console" if self.pinned else "adaptive"])
            self._depth = depth
        setattr(result, MARK, (follows, batch, depth))


def depth_of(worker: Any) -> int | None:
    """Steps drafted at present."""
    steps = getattr(worker, "speculative_num_steps", None)
    return steps if isinstance(steps, int) else None


def batch_size(batch: Any) -> int:
    """Requests in a batch."""
    reqs = getattr(batch, "reqs", None)
    return len(reqs) if reqs is not None else int(batch.seq_lens.shape[0])
