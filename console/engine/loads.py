"""``/v1/loads``: what the engine is asked to do, and its decode moments, which give cycle and accept_len without any flag.

``decode_moments`` (SGLang 0.5.17 and later) are sums since the start over contiguous decode rounds of one data-parallel rank:
``[n, sum(bs), sum(us), sum(bs^2), sum(bs*us), sum(generated)]``, ``us`` the microseconds of a round, ``bs`` its requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from console.engine.readings import count, items, mapping, number, text


@dataclass(frozen=True, slots=True)
class Moments:
    """The decode moments of one rank that this console uses."""

    rounds: float
    requests: float
    """Request-rounds: a round of 4 requests counts 4."""
    microseconds: float
    generated: float


@dataclass(frozen=True, slots=True)
class LoadsReading:
    """One answer of ``/v1/loads``, its data-parallel ranks taken together."""

    at_s: float | None = None
    """When the engine took the snapshot (Unix seconds, the oldest rank's); it stands still while the engine does nothing."""
    version: str = ""
    ranks: int = 0
    running: int | None = None
    queued: int | None = None
    token_usage: float | None = None
    """Fraction of the KV pool in use, over all ranks."""
    gen_throughput_tok_s: float | None = None
    """A sticky gauge, needs ``--enable-metrics``."""
    accept_len: float | None = None
    """Since the last flush, weighted by request-rounds."""
    accept_rate: float | None = None
    max_running: int | None = None
    max_tokens: int | None = None
    moments: tuple[tuple[int, Moments], ...] = ()
    """Decode moments by data-parallel rank."""
    why: str = ""
    """Why there is nothing, if there is nothing."""


@dataclass(frozen=True, slots=True)
class LoadsWindow:
    """What happened between two readings; ``None`` where nothing was decoded, ``why`` says so."""

    rounds: int = 0
    cycle_ms: float | None = None
    """Mean wall time of a decode round, gaps included."""
    batch: float | None = None
    """Mean requests in a round."""
    accept_len: float | None = None
    """Tokens per request-round, bonus included."""
    tok_s: float | None = None
    """Tokens a second over all ranks and requests while decoding."""
    why: str = ""


def parse(body: Any) -> LoadsReading:
    """The reading in a decoded JSON body, of any version; anything else gives an empty one that says why."""
    top = mapping(body)
    loads = [load for load in (mapping(entry) for entry in items(top.get("loads"))) if load]
    if not loads:
        return LoadsReading(version=text(top.get("version")), why="the answer of /v1/loads holds no loads")
    moments = tuple(
        (count(load.get("dp_rank")) if count(load.get("dp_rank")) is not None else index, read)
        for index, load in enumerate(loads)
        if (read := _moments(load.get("decode_moments"))) is not None
    )
    speculative = [mapping(load.get("speculative")) for load in loads]
    weights = [read.requests if (read := _moments(load.get("decode_moments"))) else 0.0 for load in loads]
    stamps = [stamp for load in loads if (stamp := number(load.get("timestamp"))) is not None]
    return LoadsReading(
        at_s=min(stamps) if stamps else None,
        version=text(top.get("version")),
        ranks=len(loads),
        running=_total(load.get("num_running_reqs") for load in loads),
        queued=_total(load.get("num_waiting_reqs") for load in loads),
        token_usage=_usage(loads),
        gen_throughput_tok_s=_sum(load.get("gen_throughput") for load in loads),
        accept_len=_weighted([part.get("accept_length") for part in speculative], weights),
        accept_rate=_weighted([part.get("accept_rate") for part in speculative], weights),
        max_running=_total(load.get("max_running_requests") for load in loads),
        max_tokens=_total(load.get("max_total_num_tokens") for load in loads),
        moments=tuple((rank if rank is not None else 0, read) for rank, read in moments),
    )


def window(old: LoadsReading, new: LoadsReading) -> LoadsWindow:
    """The difference of two readings of the same engine; a rank whose sums went back (a restart) is left out."""
    if not new.moments:
        return LoadsWindow(why=new.why or "this version of SGLang reports no decode moments")
    before = dict(old.moments)
    rounds = requests = microseconds = generated = speed = 0.0
    reset = False
    for rank, now in new.moments:
        was = before.get(rank)
        if was is None:
            continue
        steps = (
            now.rounds - was.rounds,
            now.requests - was.requests,
            now.microseconds - was.microseconds,
            now.generated - was.generated,
        )
        if min(steps) < 0:
            reset = True
            continue
        rounds += steps[0]
        requests += steps[1]
        microseconds += steps[2]
        generated += steps[3]
        speed += 1e6 * steps[3] / steps[2] if steps[2] > 0 else 0.0
    if rounds <= 0 or requests <= 0 or microseconds <= 0:
        return LoadsWindow(
            why="the engine was restarted between the readings" if reset else "nothing was decoded in this window"
        )
    return LoadsWindow(
        rounds=round(rounds),
        cycle_ms=microseconds / rounds / 1000,
        batch=requests / rounds,
        accept_len=generated / requests,
        tok_s=speed,
    )


def _moments(value: Any) -> Moments | None:
    sums = [number(entry) for entry in items(value)]
    known = [entry for entry in sums if entry is not None]
    if len(sums) < 6 or len(known) != len(sums) or min(known) < 0:
        return None
    return Moments(rounds=known[0], requests=known[1], microseconds=known[2], generated=known[5])


def _sum(values: Any) -> float | None:
    known = [found for value in values if (found := number(value)) is not None]
    return sum(known) if known else None


def _total(values: Any) -> int | None:
    total = _sum(values)
    return None if total is None else int(total)


def _usage(loads: list[dict[str, Any]]) -> float | None:
    sizes = [number(load.get("max_total_num_tokens")) or 0.0 for load in loads]
    return _weighted([load.get("token_usage") for load in loads], sizes)


def _weighted(values: list[Any], weights: list[float]) -> float | None:
    """Mean of the known values by weight; unweighted when no rank has any weight."""
    known = [
        (found, weight) for value, weight in zip(values, weights, strict=True) if (found := number(value)) is not None
    ]
    if not known:
        return None
    total = sum(weight for _, weight in known)
    if total <= 0:
        return sum(value for value, _ in known) / len(known)
    return sum(value * weight for value, weight in known) / total
