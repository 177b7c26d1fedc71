"""The cost and acceptance model of the simulated rig: pure arithmetic, no clock, no I/O.

The figures are those of the case the project comes from: eight GPUs on PCIe, a target that decodes at 82 tok/s without
speculation (12.2 ms a token), a three-token verify that takes about 30 ms whatever the attention mode, and 59 to 61
tok/s seen at accept_len 2.0.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

MAX_DEPTH = 16
"""Conditional acceptance is defined up to this position."""


@dataclass(frozen=True)
class Costs:
    """Milliseconds of one round. ``tokens`` below means requests in the batch times verify width.

    A decode of one token takes ``decode_ms``. A verify of more than one token pays ``verify_fixed_ms`` once (it runs as
    an extend), then ``token_ms`` for each further token of a request. Further requests share the weights, so they cost
    ``request_token_ms`` a token until ``saturation_tokens`` fill the machine; beyond that every token costs
    ``saturated_ms`` more, and speculation stops paying.
    """

    decode_ms: float = 11.6
    verify_fixed_ms: float = 15.2
    token_ms: float = 1.3
    request_token_ms: float = 0.25
    saturation_tokens: int = 32
    saturated_ms: float = 0.9
    draft_step_ms: float = 0.6
    extend_ms: float = 0.6
    gap_decode_ms: float = 0.6
    gap_ms: float = 2.7

    def forward_ms(self, batch: int, width: int) -> float:
        """One pass of the target over ``batch`` requests of ``width`` tokens each."""
        alone = self.decode_ms + (self.verify_fixed_ms if width > 1 else 0.0) + self.token_ms * (width - 1)
        shared = self.request_token_ms * (batch - 1) * width
        saturated = self.saturated_ms * max(0, batch * width - self.saturation_tokens)
        return alone + shared + saturated

    def round(self, batch: int, depth: int, *, speculative: bool = True) -> Round:
        """The stages of one round at ``depth``.

        The first draft token comes out of the draft-extend pass, so the draft stage holds ``depth - 1`` forwards; at
        depth 0 the extend still runs. Without speculation there is the forward and its gap only.
        """
        if not speculative:
            return Round(0.0, self.forward_ms(batch, 1), 0.0, self.gap_decode_ms)
        crowd = 1.0 + 0.02 * (batch - 1)
        return Round(
            draft=self.draft_step_ms * max(0, depth - 1) * crowd,
            verify=self.forward_ms(batch, depth + 1),
            extend=self.extend_ms * crowd,
            gap=self.gap_ms if depth else self.gap_decode_ms,
        )


@dataclass(frozen=True)
class Round:
    """Milliseconds of one round by stage."""

    draft: float
    verify: float
    extend: float
    gap: float

    @property
    def cycle(self) -> float:
        """Wall time of the round."""
        return self.draft + self.verify + self.extend + self.gap

    def scaled(self, factor: float) -> Round:
        """The same round, every stage ``factor`` times as long."""
        return Round(self.draft * factor, self.verify * factor, self.extend * factor, self.gap * factor)


@dataclass(frozen=True)
class Drafter:
    """A drafter by its conditional acceptance: the chance that position i is right when all before were."""

    name: str
    conditional: tuple[float, ...]
    known: bool = True

    def at(self, position: int) -> float:
        """Conditional acceptance at ``position`` (1-based); beyond the table it keeps falling by a tenth a position."""
        table = self.conditional
        if position <= len(table):
            return table[position - 1]
        return table[-1] * 0.9 ** (position - len(table)) if table else 0.0

    def accept_len(self, depth: int) -> float:
        """Mean tokens a round wins at ``depth``, the bonus token included."""
        total, marginal = 1.0, 1.0
        for position in range(1, depth + 1):
            marginal *= self.at(position)
            total += marginal
        return total

    def accepted(self, depth: int, rng: random.Random) -> int:
        """How many drafted tokens one round of one request accepts."""
        for position in range(1, depth + 1):
            if rng.random() >= self.at(position):
                return position - 1
        return depth


CATALOGUE: tuple[Drafter, ...] = (
    # accept_len 2.00 at depth 2: the operators' own drafter, 37 000 training samples
    Drafter("sim/own-37k", (0.640, 0.5625, 0.50, 0.45, 0.40)),
    # accept_len 3.40 at depth 3: the published drafter, 1.4 million samples
    Drafter("sim/kimi-k2-instruct-eagle3", (0.90, 0.90, 0.852, 0.78, 0.70, 0.62, 0.55, 0.50)),
    # accept_len 1.00 at every depth: loads, runs, never right
    Drafter("sim/silent", (0.0,)),
)
"""The drafters of the case."""

WRONG_SHAPE = ("wrong-shape", "drafter-bad")
"""A drafter with one of these in its name does not fit the target."""


def drafter(name: str) -> Drafter:
    """The drafter called ``name``; an unknown one gets an acceptance of its own, the same at each start."""
    tail = name.rstrip("/").rsplit("/", 1)[-1].lower()
    for known in CATALOGUE:
        if tail == known.name.rsplit("/", 1)[-1]:
            return Drafter(name, known.conditional)
    chance = 0.5 + (zlib.crc32(tail.encode()) % 36) / 100
    return Drafter(name, tuple(chance - 0.04 * position for position in range(5)), known=False)


def fits(name: str) -> bool:
    """Whether the drafter's shape fits the simulated target."""
    return not any(mark in name for mark in WRONG_SHAPE)
