"""The two lines a serving engine writes over and over: decode and prefill batches, in the phrasings of 0.5.6 to 0.5.23."""

from __future__ import annotations

import re
from dataclasses import dataclass

_DECODE = re.compile(
    r"Decode batch(?: \[\d+\])?, #running-req: (?P<run>\d+), (?P<usage>.*?)"
    r"(?:accept len: (?P<alen>[\d.]+), )?(?:accept rate: (?P<arate>[\d.]+), )?(?:cap len: [\d.]+, )?"
    r"(?:(?:cuda|cpu|npu|xpu|hip|musa) graph: (?P<graph>True|False), )?"
    r"gen throughput \(token/s\): (?P<tps>[\d.]+), #queue-req: (?P<queue>\d+)"
)
_PREFILL = re.compile(
    r"Prefill batch(?: \[\d+\])?, #new-seq: (?P<seq>\d+), #new-token: (?P<new>\d+), #cached-token: (?P<cached>\d+), .*?"
    r"#running-req: (?P<run>\d+), #queue-req: (?P<queue>\d+)"
)
_USAGE = re.compile(r"token usage: (?P<usage>[\d.]+)")


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


def _number(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text[:40])
    except ValueError:
        return None


def _count(text: str) -> int:
    return int(text[:15])


def decode_batch(text: str, rank: str, at_s: float | None) -> DecodeBatch | None:
    """A decode line's figures; ``None`` when the line is none, or cut off."""
    found = _DECODE.match(text)
    if found is None:
        return None
    tok_s = _number(found["tps"])
    if tok_s is None:
        return None
    usage = _USAGE.search(found["usage"])
    return DecodeBatch(
        at_s=at_s,
        rank=rank,
        running=_count(found["run"]),
        queued=_count(found["queue"]),
        tok_s=tok_s,
        accept_len=_number(found["alen"]),
        accept_rate=_number(found["arate"]),
        graph=None if found["graph"] is None else found["graph"] == "True",
        token_usage=_number(usage["usage"]) if usage else None,
    )


def prefill_batch(text: str, rank: str, at_s: float | None) -> PrefillBatch | None:
    """A prefill line's figures; ``None`` when the line is none, or cut off."""
    found = _PREFILL.match(text)
    if found is None:
        return None
    return PrefillBatch(
        at_s,
        rank,
        _count(found["seq"]),
        _count(found["new"]),
        _count(found["cached"]),
        _count(found["run"]),
        _count(found["queue"]),
    )
