"""Milliseconds of the draft, verify and draft-extend stages of a round.

Best is SGLang's own device timer: its intervals cost nothing more and need no synchronisation. Without it, pairs of
CUDA events around every n-th round, asked later whether they are done. Without a GPU, the host's clock.
"""

from __future__ import annotations

import os
import time
from collections import deque
from contextlib import suppress
from typing import Any, Protocol

from sglang_console_probe.guard import Hook, wrap_method
from sglang_console_probe.rounds import batch_size

QUEUE = 8192
EVERY_VARIABLE = "SGLANG_CONSOLE_PROBE_EVERY"
EVERY = 8
"""With CUDA events, one round of this many is timed."""
PENDING = 96
STAGES = {"draft": "draft", "verify": "verify", "_draft_extend_for_decode": "extend"}
"""Method of SGLang's workers -> stage."""


class Span:
    """One stage of one round."""

    __slots__ = ("batch", "ms", "stage", "token")

    def __init__(self, stage: str, batch: int) -> None:
        self.stage = stage
        self.batch = batch
        self.ms = 0.0
        self.token: Any = None


class Clock(Protocol):
    """A way to time spans; each is given to the sink when its time is known."""

    name: str
    every: int

    def begin(self, span: Span) -> None:
        """The stage starts."""

    def end(self, span: Span) -> None:
        """The stage has been launched."""


class HostClock:
    """The host's clock: right where the host does the work."""

    name = "host clock"
    every = 1

    def __init__(self, sink: deque[Span]) -> None:
        self._sink = sink

    def begin(self, span: Span) -> None:
        """Note the time."""
        span.token = time.perf_counter()

    def end(self, span: Span) -> None:
        """Done when it returns."""
        span.ms = (time.perf_counter() - span.token) * 1e3
        self._sink.append(span)


class EventClock:
    """Pairs of CUDA events on the current stream, reused, never waited for."""

    name = "CUDA events"

    def __init__(self, sink: deque[Span], every: int, new_event: Any = None) -> None:
        self.every = every
        self._sink = sink
        self._new = new_event or _cuda_event
        self._free: list[tuple[Any, Any]] = []
        self._pending: deque[Span] = deque()

    def begin(self, span: Span) -> None:
        """Record the first event."""
        span.token = self._free.pop() if self._free else (self._new(), self._new())
        span.token[0].record()

    def end(self, span: Span) -> None:
        """Record the second, and take what earlier spans have finished."""
        span.token[1].record()
        self._pending.append(span)
        while self._pending and (self._pending[0].token[1].query() or len(self._pending) > PENDING):
            done = self._pending.popleft()
            if done.token[1].query():
                done.ms = done.token[0].elapsed_time(done.token[1])
                self._sink.append(done)
                self._free.append(done.token)
            done.token = None


def _cuda_event() -> Any:
    import torch

    return torch.cuda.Event(enable_timing=True)


class TimerClock:
    """SGLang's device timer.

    Its intervals are reported in the order in which they were opened, so a queue beside it says which span each
    belongs to; those of prefills belong to none. A span is complete when an interval of another one is reported.
    """

    name = "device timer"
    every = 1

    def __init__(self, sink: deque[Span], timer: Any, hook: Hook) -> None:
        self._sink = sink
        self._hook = hook
        self._current: Span | None = None
        self._open: Span | None = None
        self._order: deque[Span | None] = deque([None] * len(timer._intervals))
        original = timer.wrap

        def wrap(*args: Any, **kwargs: Any) -> Any:
            self._order.append(self._current)
            return original(*args, **kwargs)

        timer.add_reporter(self._report)
        timer.wrap = wrap

    def begin(self, span: Span) -> None:
        """Intervals from here on are this span's."""
        self._current = span

    def end(self, span: Span) -> None:  # noqa: ARG002 - the clocks have one shape
        """And from here on not."""
        self._current = None

    def _report(self, t: float = 0.0, **_: Any) -> None:
        """Called by SGLang for every interval that the device has finished; ``t`` in seconds."""
        if not self._order:
            if self._hook.on:
                self._hook.failed(RuntimeError("the device timer reported an interval that it did not open"))
            return
        span = self._order.popleft()
        if not self._hook.on:
            return
        if span is not self._open:
            if self._open is not None:
                self._sink.append(self._open)
            self._open = span
        if span is not None:
            span.ms += t * 1e3


class Stages:
    """The wrappers around the workers' stages.

    Args:
        worker: has ``verify``.
        drafter: has ``draft`` and ``_draft_extend_for_decode``.
        timer: SGLang's device timer, ``None`` when it is off.
        cuda: whether the work is done by a CUDA device.
    """

    def __init__(self, worker: Any, drafter: Any, timer: Any, *, cuda: bool) -> None:
        self.hook = Hook("stages")
        self.slow_s = 0.0
        """A test asked this rank to lose so much in each verify."""
        self.queue: deque[Span] = deque(maxlen=QUEUE)
        self.clock = self._choose(timer, cuda)
        self._owners = {"draft": drafter, "verify": worker, "_draft_extend_for_decode": drafter}
        self._rounds = 0
        self._drafted = False
        self._timed = True

    def _choose(self, timer: Any, cuda: bool) -> Clock:
        if timer is not None and hasattr(timer, "add_reporter") and hasattr(timer, "_intervals"):
            return TimerClock(self.queue, timer, self.hook)
        if cuda:
            every = EVERY
            with suppress(ValueError):
                every = max(1, int(os.environ.get(EVERY_VARIABLE, EVERY)))
            return EventClock(self.queue, every)
        return HostClock(self.queue)

    def install(self) -> None:
        """Wrap what there is; say what is missing."""
        missing = [name for name, owner in self._owners.items() if not callable(getattr(owner, name, None))]
        if missing:
            self.hook.disable(f"this SGLang's workers have no {', '.join(missing)}")
            return
        for name, owner in self._owners.items():
            self._wrap(owner, name, STAGES[name])
        self.hook.enable()

    def _wrap(self, owner: Any, name: str, stage: str) -> None:
        def before(batch: Any, *_: Any, **__: Any) -> Span | None:
            self.hook.spring()
            self._count(stage)
            size = batch_size(batch) if self._timed else 0
            if not size:
                return None
            span = Span(stage, size)
            self.clock.begin(span)
            return span

        def after(span: Span | None, result: Any) -> None:  # noqa: ARG001 - the stage's result is SGLang's own
            if self.slow_s and stage == "verify":
                time.sleep(self.slow_s)
            if span is not None:
                self.clock.end(span)

        wrap_method(owner, name, self.hook, before, after)

    def _count(self, stage: str) -> None:
        """A round starts with its draft, or at depth 0 with its verify."""
        if stage == "draft" or (stage == "verify" and not self._drafted):
            self._rounds += 1
            self._timed = self._rounds % self.clock.every == 0
        self._drafted = stage == "draft"
