"""Measures speed at given depths and concurrencies with requests of its own, on the running engine.

Cells are visited in turn, back and forth over several repetitions, so that a drift of the machine falls on all of them alike.
Tokens are counted from the engine's usage figures, never from stream chunks. Acceptance by position is that of these requests
only (the histogram in each reply), so other traffic on the box cannot falsify it.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from console import economics
from console.calibration import Cell, speed_of
from console.engine import loads
from console.engine.prompts import PromptSet
from console.errors import ConsoleError
from console.rig import Position

LABEL = "console-calibration"
"""Prefix of every request's id, so that an operator sees in the log whose requests these are."""
WARM_UP_TOKENS = 64
"""Enough rounds to push the former depth's last ones out of counters that are published every 15 rounds."""
SETTLE_S = 1.3
"""The probe renews its counters once a second."""
CONTIGUOUS_S = 2.2
"""SGLang counts a pause of under 2 s between two decode rounds as part of a round (``decode_moments``, scheduler.py)."""


class Client(Protocol):
    """The engine's routes used here; see :class:`console.engine.http.EngineClient`."""

    async def generate(self, payload: dict[str, Any], *, deadline_s: float = 600.0) -> Any:
        """One request, not streamed."""

    async def loads(self) -> dict[str, Any]:
        """``/v1/loads``."""


Stages = Mapping[str, tuple[float, int]]
"""Stage -> (seconds, rounds) since the engine's start, by the probe; empty without one."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What to measure."""

    depths: tuple[int, ...]
    concurrencies: tuple[int, ...]
    repetitions: int = 3
    tokens: int = 256
    """Answer length of every request."""
    temperature: float = 0.0

    @property
    def cells(self) -> tuple[tuple[int, int], ...]:
        """(concurrency, depth), every pair once."""
        return tuple(itertools.product(self.concurrencies, self.depths))

    @property
    def sampling(self) -> str:
        """For the record: only like is compared with like."""
        kind = "greedy" if self.temperature == 0 else f"temperature {self.temperature:g}"
        return f"{kind}, {self.tokens} tokens"


@dataclass(slots=True)
class _Sums:
    """What the repetitions of one cell add up to."""

    stream: list[float] = field(default_factory=list)
    total: list[float] = field(default_factory=list)
    histogram: list[int] = field(default_factory=list)
    cycle: list[float] = field(default_factory=list)
    stages: dict[str, tuple[float, int]] = field(default_factory=dict)
    tokens: int = 0
    requests: int = 0
    failed: int = 0
    seconds: float = 0.0


class Calibrator:
    """One run.

    Args:
        client: the engine.
        set_depth: puts a depth in force and returns when it is.
        stages: the probe's counters, newest; empty without a probe.
        progress: called with (cells done, cells in all, what runs).
        settle_s: how long the probe's counters take to be published.
        contiguous_s: how long a pause must be for the engine's own counters to leave it out; matters without a probe.
    """

    def __init__(
        self,
        client: Client,
        set_depth: Callable[[int], Awaitable[None]],
        *,
        stages: Callable[[], Stages] = dict,
        progress: Callable[[int, int, str], None] = lambda _done, _all, _text: None,
        settle_s: float = SETTLE_S,
        contiguous_s: float = CONTIGUOUS_S,
    ) -> None:
        self._client = client
        self._set_depth = set_depth
        self._stages = stages
        self._progress = progress
        self._settle_s = settle_s
        self._contiguous_s = contiguous_s
        self._serial = 0

    async def run(self, wish: Wish, prompts: PromptSet) -> tuple[Cell, ...]:
        """Visit every cell ``repetitions`` times.

        Raises:
            ConsoleError: the engine refused a depth, or no request of a cell succeeded.
        """
        sums = {cell: _Sums() for cell in wish.cells}
        done, count = 0, len(sums) * wish.repetitions
        for repetition in range(wish.repetitions):
            order = wish.cells if repetition % 2 == 0 else wish.cells[::-1]
            for concurrency, depth in order:
                self._progress(done, count, f"depth {depth}, {concurrency} running")
                await self._set_depth(depth)
                await self._generate(prompts, WARM_UP_TOKENS, wish.temperature)
                await self._visit(sums[concurrency, depth], concurrency, prompts, wish)
                done += 1
        self._progress(done, count, "")
        return tuple(_cell(depth, concurrency, sums[concurrency, depth]) for concurrency, depth in wish.cells)

    async def _visit(self, sums: _Sums, concurrency: int, prompts: PromptSet, wish: Wish) -> None:
        """``concurrency`` requests at once, one each; the speed of all is taken while all of them run."""
        await self._pause()
        before, stages = loads.parse(await self._client.loads()), self._stages()
        begun = time.monotonic()
        answers = await asyncio.gather(
            *(self._generate(prompts, wish.tokens, wish.temperature) for _ in range(concurrency)),
            return_exceptions=True,
        )
        sums.seconds += time.monotonic() - begun
        speeds = []
        for answer in answers:
            sums.requests += 1
            if isinstance(answer, asyncio.CancelledError):
                raise answer
            if isinstance(answer, BaseException) or (speed := decode_speed(answer)) is None:
                sums.failed += 1
                continue
            speeds.append(speed)
            meta = answer["meta_info"]
            sums.tokens += int(meta["completion_tokens"])
            _add(sums.histogram, meta.get("spec_correct_drafts_histogram") or meta.get("spec_accept_histogram") or [])
        if not speeds:
            reason = next((str(answer) for answer in answers if isinstance(answer, BaseException)), "no usable answer")
            raise ConsoleError(f"none of {concurrency} requests succeeded", why=reason)
        sums.stream += speeds
        sums.total.append(sum(speeds))
        await self._settle(before, stages, sums)

    async def _settle(self, before: loads.LoadsReading, stages: Stages, sums: _Sums) -> None:
        """Counters are published with a delay; what has come by then is used."""
        await self._pause()
        window = loads.window(before, loads.parse(await self._client.loads()))
        if window.cycle_ms is not None:
            sums.cycle.append(window.cycle_ms)
        for name, (seconds, rounds) in self._stages().items():
            old_seconds, old_rounds = stages.get(name, (0.0, 0))
            if rounds > old_rounds:
                have_seconds, have_rounds = sums.stages.get(name, (0.0, 0))
                sums.stages[name] = (have_seconds + seconds - old_seconds, have_rounds + rounds - old_rounds)

    async def _pause(self) -> None:
        await asyncio.sleep(self._settle_s if self._stages() else self._contiguous_s)

    async def _generate(self, prompts: PromptSet, tokens: int, temperature: float) -> Any:
        self._serial += 1
        prompt = prompts.items[self._serial % len(prompts.items)]
        sampling = {"temperature": temperature, "max_new_tokens": tokens, "ignore_eos": True}
        payload = {**prompt, "sampling_params": sampling, "rid": f"{LABEL}-{time.time_ns():x}-{self._serial}"}
        return await self._client.generate(payload, deadline_s=60.0 + tokens * 2.0)


def decode_speed(answer: Any) -> float | None:
    """Tokens a second of one request after its first token; ``None`` when the answer does not tell.

    The prefill is left out: (completion_tokens - 1) over the time from the end of prefill to the end of the request.
    """
    meta = answer.get("meta_info") if isinstance(answer, dict) else None
    if not isinstance(meta, dict):
        return None
    tokens, latency = meta.get("completion_tokens"), meta.get("e2e_latency")
    begun, ended = meta.get("prefill_finished_time"), meta.get("request_finished_ts")
    seconds: float | None = None
    if isinstance(begun, int | float) and isinstance(ended, int | float) and ended > begun > 0:
        seconds = float(ended - begun)
    elif isinstance(latency, int | float):
        seconds = float(latency)
    if not isinstance(tokens, int) or tokens < 2 or not seconds or seconds <= 0:
        return None
    return (tokens - 1) / seconds


def _add(histogram: list[int], more: Sequence[Any]) -> None:
    for index, value in enumerate(more):
        if isinstance(value, int) and value >= 0:
            if index >= len(histogram):
                histogram += [0] * (index + 1 - len(histogram))
            histogram[index] += value


def _cell(depth: int, concurrency: int, sums: _Sums) -> Cell:
    rounds = sum(sums.histogram)
    positions: tuple[Position, ...] = ()
    accept_len = 1.0 if depth == 0 else None
    if rounds and depth:
        counts = (sums.histogram + [0] * (depth + 1))[: max(depth + 1, len(sums.histogram))]
        reached = [sum(counts[index:]) for index in range(len(counts) + 1)]
        positions = economics.positions(reached[:depth], reached[1 : depth + 1])
        accept_len = 1.0 + sum(index * value for index, value in enumerate(counts)) / rounds
    return Cell(
        depth=depth,
        concurrency=concurrency,
        stream_tok_s=speed_of(sums.stream),
        total_tok_s=speed_of(sums.total),
        accept_len=accept_len,
        cycle_ms=_cycle_ms(sums),
        draft_ms=_mean_ms(sums, "draft"),
        verify_ms=_mean_ms(sums, "verify"),
        extend_ms=_mean_ms(sums, "extend"),
        positions=positions,
        tokens=sums.tokens,
        requests=sums.requests,
        failed=sums.failed,
        seconds=sums.seconds,
    )


def _cycle_ms(sums: _Sums) -> float | None:
    """By the probe where it is: it leaves out pauses; else by the engine's own counters."""
    by_probe = _mean_ms(sums, "cycle")
    if by_probe is not None:
        return by_probe
    return sum(sums.cycle) / len(sums.cycle) if sums.cycle else None


def _mean_ms(sums: _Sums, stage: str) -> float | None:
    seconds, rounds = sums.stages.get(stage, (0.0, 0))
    return 1000.0 * seconds / rounds if rounds else None
