"""Requests, and the simulated clients that make them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random


@dataclass
class Request:
    """One request in the engine: what it asks for and what was done for it."""

    rid: str
    prompt_tokens: int
    max_tokens: int
    arrived_s: float
    own: bool = False
    """Made by the simulated clients; nobody waits for its answer."""
    started_s: float | None = None
    first_token_s: float | None = None
    finished_s: float | None = None
    generated: int = 0
    verifies: int = 0
    proposed: int = 0
    histogram: list[int] = field(default_factory=list)
    """Index: drafts accepted in one verify; value: how often."""
    done: asyncio.Event = field(default_factory=asyncio.Event)
    aborted: bool = False

    @property
    def tokens(self) -> int:
        """KV slots the request holds."""
        return self.prompt_tokens + self.generated

    def take(self, accepted: int, depth: int) -> int:
        """Book one verify; how many tokens it added (cut at the request's limit)."""
        new = min(accepted + 1, self.max_tokens - self.generated)
        self.generated += new
        self.verifies += 1
        self.proposed += depth
        if len(self.histogram) <= accepted:
            self.histogram.extend([0] * (accepted + 1 - len(self.histogram)))
        self.histogram[accepted] += 1
        return new


class Clients:
    """Simulated clients: how many there are drifts between one and four; each asks again when its answer is complete.

    Args:
        mode: "auto", "none", or how many.
    """

    HOLD_S = (15.0, 45.0)
    """How long their number stays."""
    WEIGHTS = (5, 3, 2, 1)
    """One client is the likeliest: that is the case the rig is tuned for."""

    def __init__(self, mode: str, rng: random.Random) -> None:
        self._rng = rng
        self._fixed = None if mode == "auto" else 0 if mode == "none" else int(mode)
        self.wanted = self._fixed if self._fixed is not None else 1
        self._change_s: float | None = None
        self._count = 0

    def due(self, now_s: float, active: int) -> list[Request]:
        """The requests that arrive now, given how many of theirs are in the engine."""
        if self._fixed is None:
            if self._change_s is None:
                self._change_s = now_s + self._rng.uniform(*self.HOLD_S)
            elif now_s >= self._change_s:
                self.wanted = self._rng.choices(range(1, len(self.WEIGHTS) + 1), self.WEIGHTS)[0]
                self._change_s = now_s + self._rng.uniform(*self.HOLD_S)
        return [self._request(now_s) for _ in range(self.wanted - active)]

    def _request(self, now_s: float) -> Request:
        self._count += 1
        return Request(
            rid=f"sim-{self._count:08x}",
            prompt_tokens=self._rng.randint(200, 900),
            max_tokens=self._rng.randint(250, 1200),
            arrived_s=now_s,
            own=True,
        )
