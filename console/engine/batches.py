"""The two lines a serving engine writes over and over: decode and prefill batches, in the phrasings of 0.5.6 to 0.5.23."""

from __future__ import annotations

import math
from dataclasses import dataclass

_FIELD_CHARS = 40
"""More than any number in a batch line has."""


@dataclass(frozen=True, slots=True)
class DecodeBatch:
    """What one decode line tells; it covers ``--decode-log-interval`` rounds up to it."""

    at_s: float | None
    rank: str
    running: int
    """Requests in the batch."""
    queued: int
    tok_s: float
    """Generated tokens a second over all requests."""
    accept_len: float | None
    """Tokens per request and round, bonus included; ``None`` without speculation."""
    accept_rate: float | None
    graph: bool | None
    """Whether the pass replayed a CUDA (or CPU) graph."""
    token_usage: float | None

    @property
    def cycle_ms(self) -> float | None:
        """Wall time of a round, gaps included (F19): 1000 x running x accept_len / throughput."""
        if self.tok_s <= 0 or self.running <= 0:
            return None
        return 1000 * self.running * (self.accept_len if self.accept_len is not None else 1.0) / self.tok_s

    @property
    def depth(self) -> int | None:
        """Depth in use, where length and rate tell it: accept_len = 1 + depth x rate for chains (SGLang 0.5.11 and later)."""
        if self.accept_len is None or not self.accept_rate or self.accept_rate < 0.05:
            return None
        depth = (self.accept_len - 1) / self.accept_rate
        return round(depth) if abs(depth - round(depth)) < 0.25 else None


@dataclass(frozen=True, slots=True)
class PrefillBatch:
    """What one prefill line tells."""

    at_s: float | None
    rank: str
    new_requests: int
    new_tokens: int
    cached_tokens: int
    running: int
    queued: int


def _field(text: str, name: str) -> str | None:
    """What stands between ``name`` and the next comma; ``None`` without the name. Cheaper than one pattern for the line."""
    start = text.find(name)
    if start < 0:
        return None
    start += len(name)
    end = text.find(",", start, start + _FIELD_CHARS)
    return text[start:end] if end >= 0 else text[start : start + _FIELD_CHARS].partition(" ")[0]


def _number(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _count(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 16 else None


def decode_batch(text: str, rank: str, at_s: float | None) -> DecodeBatch | None:
    """A decode line's figures; ``None`` when the line is none, or cut off."""
    if not text.startswith("Decode batch"):
        return None
    running = _count(_field(text, "#running-req: "))
    queued = _count(_field(text, "#queue-req: "))
    tok_s = _number(_field(text, "gen throughput (token/s): "))
    if running is None or queued is None or tok_s is None:
        return None
    graph = _field(text, " graph: ")
    return DecodeBatch(
        at_s=at_s,
        rank=rank,
        running=running,
        queued=queued,
        tok_s=tok_s,
        accept_len=_number(_field(text, "accept len: ")),
        accept_rate=_number(_field(text, "accept rate: ")),
        graph=None if graph is None else graph == "True",
        token_usage=_number(_field(text, "token usage: ")),
    )


def prefill_batch(text: str, rank: str, at_s: float | None) -> PrefillBatch | None:
    """A prefill line's figures; ``None`` when the line is none, or cut off."""
    if not text.startswith("Prefill batch"):
        return None
    names = ("#new-seq: ", "#new-token: ", "#cached-token: ", "#running-req: ", "#queue-req: ")
    requests, new, cached, running, queued = (_count(_field(text, name)) for name in names)
    if requests is None or new is None or cached is None or running is None or queued is None:
        return None
    return PrefillBatch(at_s, rank, requests, new, cached, running, queued)
