"""What a calibration measured, and what follows from it: pure records and arithmetic, no I/O.

A cell is one depth at one concurrency. Like is compared with like: cells of one calibration share prompts, sampling, endpoint
and fingerprint. Speed ranks, accept_len explains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from console.rig import Position

NORMAL_95 = 1.959964


class Speed(msgspec.Struct, frozen=True):
    """A median over repetitions with its spread, tok/s."""

    median: float
    low: float
    high: float
    samples: int

    def overlaps(self, other: Speed) -> bool:
        """Could the two be equal?"""
        return self.low <= other.high and other.low <= self.high


class Cell(msgspec.Struct, frozen=True, omit_defaults=True):
    """One depth at one concurrency. Times are milliseconds a round, speeds tokens a second."""

    depth: int
    concurrency: int
    stream_tok_s: Speed
    """Of one request."""
    total_tok_s: Speed
    """Of all requests together."""
    accept_len: float | None = None
    cycle_ms: float | None = None
    draft_ms: float | None = None
    verify_ms: float | None = None
    extend_ms: float | None = None
    positions: tuple[Position, ...] = ()
    tokens: int = 0
    requests: int = 0
    failed: int = 0
    seconds: float = 0.0

    @property
    def predicted_tok_s(self) -> float | None:
        """accept_len / cycle: what the cycle alone would give one stream."""
        if self.accept_len is None or not self.cycle_ms:
            return None
        return 1000.0 * self.accept_len / self.cycle_ms

    @property
    def unexplained_share(self) -> float | None:
        """Part of the predicted speed that was not seen; negative when more was seen."""
        predicted = self.predicted_tok_s
        return None if not predicted else 1.0 - self.stream_tok_s.median / predicted


class Calibration(msgspec.Struct, frozen=True, omit_defaults=True):
    """A whole run."""

    at_s: float
    fingerprint: str
    drafter: str
    prompts: str
    """Name and hash of the prompt set."""
    sampling: str
    cells: tuple[Cell, ...] = ()
    simulated: bool = False
    dry: bool = False
    """Acceptance was forced (SGLANG_SIMULATE_ACC_LEN): times are real, texts and acceptance are not."""
    note: str = ""


class Choice(msgspec.Struct, frozen=True):
    """The best depth at one concurrency."""

    concurrency: int
    depth: int
    tok_s: float
    also: tuple[int, ...] = ()
    """Depths whose interval overlaps the best one's: not distinguishable."""
    baseline_tok_s: float | None = None
    speedup: float | None = None
    pays: bool | None = None
    """``None`` when speculation and no speculation cannot be told apart, or depth 0 was not measured."""


def speed_of(samples: Sequence[float]) -> Speed:
    """Median with a 95 % interval of the mean around it (normal approximation; the extremes below 4 samples).

    Raises:
        ValueError: no samples, or one that is no positive number.
    """
    if not samples or any(not math.isfinite(value) or value <= 0 for value in samples):
        raise ValueError("a speed needs at least one positive sample")
    ordered = sorted(samples)
    count = len(ordered)
    middle = count // 2
    median = ordered[middle] if count % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    if count < 4:
        return Speed(median, ordered[0], ordered[-1], count)
    mean = math.fsum(ordered) / count
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in ordered) / (count - 1))
    half = NORMAL_95 * deviation / math.sqrt(count)
    return Speed(median, max(median - half, 0.0), median + half, count)


def choices(calibration: Calibration) -> tuple[Choice, ...]:
    """The best depth for each concurrency, by measured tok/s of all requests together."""
    return tuple(
        _choose(calibration, concurrency) for concurrency in sorted({c.concurrency for c in calibration.cells})
    )


def _choose(calibration: Calibration, concurrency: int) -> Choice:
    cells = [cell for cell in calibration.cells if cell.concurrency == concurrency]
    best = max(cells, key=lambda cell: (cell.total_tok_s.median, -cell.depth))
    also = tuple(sorted(c.depth for c in cells if c is not best and c.total_tok_s.overlaps(best.total_tok_s)))
    plain = next((cell for cell in cells if cell.depth == 0), None)
    if plain is None:
        return Choice(concurrency, best.depth, best.total_tok_s.median, also)
    speculative = [cell for cell in cells if cell.depth > 0]
    pays: bool | None = False
    if speculative:
        fastest = max(speculative, key=lambda cell: cell.total_tok_s.median)
        pays = (
            None
            if fastest.total_tok_s.overlaps(plain.total_tok_s)
            else fastest.total_tok_s.median > plain.total_tok_s.median
        )
    base = plain.total_tok_s.median
    return Choice(concurrency, best.depth, best.total_tok_s.median, also, base, best.total_tok_s.median / base, pays)


def loses_from(calibration: Calibration) -> int | None:
    """The lowest concurrency from which speculation never pays again; ``None`` when it pays at the highest measured."""
    losing: int | None = None
    for choice in reversed(choices(calibration)):
        if choice.pays is not False:
            break
        losing = choice.concurrency
    return losing


def cost_ms(calibration: Calibration, concurrency: int) -> dict[int, float]:
    """Measured cycle by depth at one concurrency: the cost table of best-depth arithmetic."""
    return {c.depth: c.cycle_ms for c in calibration.cells if c.concurrency == concurrency and c.cycle_ms}


def nearest_concurrency(calibration: Calibration, running: float) -> int | None:
    """The measured concurrency closest to ``running`` on a logarithmic scale."""
    measured = sorted({cell.concurrency for cell in calibration.cells})
    if not measured:
        return None
    wanted = math.log(max(running, 1.0))
    return min(measured, key=lambda value: abs(math.log(value) - wanted))


def unlike(one: Calibration, other: Calibration) -> tuple[str, ...]:
    """What forbids comparing two calibrations; empty when they are alike."""
    pairs = (
        ("prompts", one.prompts, other.prompts),
        ("sampling", one.sampling, other.sampling),
        ("fingerprint", one.fingerprint, other.fingerprint),
        ("simulated", one.simulated, other.simulated),
        ("forced acceptance", one.dry, other.dry),
    )
    return tuple(f"{name}: {left} against {right}" for name, left, right in pairs if left != right)
