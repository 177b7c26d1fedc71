"""Acceptance by request, taken where SGLang has it on the CPU anyway.

The scheduler's thread only appends; the publishing thread counts.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from sglang_console_probe.counters import AcceptanceCounter, StageCounter
from sglang_console_probe.guard import Hook
from sglang_console_probe.rounds import MARK, Rounds, depth_of

QUEUE = 4096
"""Rounds that may wait for the publishing thread: seconds of work; the oldest are lost, and counted as lost."""
ACCEPTED = ("num_correct_drafts_per_req_cpu", "num_accepted_drafts_per_req_cpu")
"""Where the result has them since 0.5.12, and in 0.5.11."""


class Acceptance:
    """The hook around SGLang's own reading of a verify result.

    Args:
        rounds: what the launches left on the results.
        worker: the engine's speculative worker.
        topk: branches drafted at each step.
    """

    def __init__(self, rounds: Rounds, worker: Any, topk: int) -> None:
        self.hook = Hook("acceptance")
        self.counter = AcceptanceCounter()
        self.cycle = StageCounter()
        self.lost = 0
        self._rounds = rounds
        self._worker = worker
        self._topk = topk
        self._queue: deque[tuple[Any, ...]] = deque(maxlen=QUEUE)
        self._appended = 0
        self._taken = 0
        self._last_s: float | None = None
        self._depth: int | None = None

    # ------------------------------------------------------------------------------------ scheduler's thread

    def around(self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Around ``_resolve_spec_v2_tokens(self, result, batch)``."""
        if not self.hook.on:
            return original(*args, **kwargs)
        try:
            self.hook.spring()
            result = args[1] if len(args) > 1 else kwargs["result"]
            batch = args[2] if len(args) > 2 else kwargs["batch"]
            # Before the call: SGLang leaves out rows of requests that had ended, and the call may end some.
            skip = [bool(getattr(req, "is_retracted", False)) or bool(req.finished()) for req in batch.reqs]
        except Exception as error:
            self.hook.failed(error)
            return original(*args, **kwargs)
        tokens = original(*args, **kwargs)
        try:
            self._append(result, skip)
        except Exception as error:
            self.hook.failed(error)
        return tokens

    def _append(self, result: Any, skip: list[bool]) -> None:
        now = time.perf_counter()
        self._rounds.last_result_s = now
        accepted = next((found for name in ACCEPTED if (found := getattr(result, name, None)) is not None), None)
        if accepted is None:
            raise AttributeError(f"the result has none of {', '.join(ACCEPTED)}")
        width = getattr(result, "speculative_num_draft_tokens", None)
        self._appended += 1
        self._queue.append((self._appended, now, accepted, skip, width, getattr(result, MARK, None)))

    # ------------------------------------------------------------------------------------ publishing thread

    def drain(self) -> bool:
        """Count what has come; whether depth changed meanwhile."""
        changed = False
        while self._queue:
            number, at_s, accepted, skip, width, mark = self._queue.popleft()
            if number != self._taken + 1:
                self.lost += number - self._taken - 1
                self._last_s = None
            self._taken = number
            follows, batch, depth = (
                mark if mark is not None else (False, len(accepted), self._depth_without_mark(width))
            )
            if depth != self._depth:
                self._depth, changed = depth, True
                self.cycle.clear_window()
            if depth is not None:
                self.counter.add(accepted, skip, depth, self._drafted_each(depth, width))
            if follows and self._last_s is not None:
                self.cycle.add(batch, (at_s - self._last_s) * 1e3)
            self._last_s = at_s
        return changed

    def _depth_without_mark(self, width: int | None) -> int | None:
        return width - 1 if width is not None and self._topk == 1 else depth_of(self._worker)

    def _drafted_each(self, depth: int, width: int | None) -> int:
        """With one branch as many as steps; with more, the tree without its root."""
        if self._topk == 1 or not depth or width is None:
            return depth
        return width - 1
