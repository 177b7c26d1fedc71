"""``/metrics``: the text of SGLang's collectors, only the families this console uses, and what happened between two scrapes.

Rules of the road. Gauges of one tensor-parallel group are copies, so a gauge is read at the lowest rank of each data-parallel
rank and never summed over tensor-parallel ranks. Counters exist on every rank. A gauge keeps its last value when traffic stops;
:attr:`MetricsWindow.stale` says so. NaN and infinities are "not known".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

SIZE_LIMIT_CHARS = 64 * 1024 * 1024
LINE_LIMIT_CHARS = 16 * 1024

GAUGES = (
    "spec_accept_length",
    "spec_accept_rate",
    "spec_num_steps",
    "spec_num_draft_tokens",
    "gen_throughput",
    "num_running_reqs",
    "num_queue_reqs",
    "token_usage",
    "fwd_occupancy",
)
COUNTERS = (
    "forward_execution_seconds_total",
    "cuda_graph_passes_total",
    "realtime_tokens_total",
    "spec_verify_calls_total",
    "generation_tokens_total",
    "num_requests_total",
)
WANTED = frozenset((*GAUGES, *COUNTERS))
SUMMED_GAUGES = frozenset({"gen_throughput", "num_running_reqs", "num_queue_reqs"})

STAGES = {
    "draft": ("eagle_draft", "frozen_kv_draft"),
    "verify": ("target_verify",),
    "extend": ("eagle_draft_extend",),
}
"""Categories of ``forward_execution_seconds_total`` by stage of a cycle (F17)."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One series of a family."""

    labels: dict[str, str]
    value: float
    """May be NaN or infinite, as SGLang wrote it."""

    def rank(self, name: str) -> int:
        """A rank label as a number; 0 where it is missing."""
        digits = self.labels.get(name, "")
        return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 9 else 0


@dataclass(frozen=True, slots=True)
class Scrape:
    """One scrape: the wanted families without their prefix."""

    at_s: float | None = None
    families: dict[str, tuple[Sample, ...]] = field(default_factory=dict)
    seen: int = 0
    """Lines of SGLang's in the text, wanted or not."""
    why: str = ""
    """Why there is nothing at all."""

    def gauge(self, name: str) -> float | None:
        """A gauge over the data-parallel ranks: speeds and requests summed, lengths weighted by rounds, others averaged."""
        leaders = self._leaders(name)
        known = [(sample, sample.value) for sample in leaders if math.isfinite(sample.value)]
        if not known:
            return None
        if name in SUMMED_GAUGES:
            return sum(value for _, value in known)
        weights = [self._weight(sample) for sample, _ in known] if len(known) > 1 else [1.0]
        total = sum(weights)
        if total <= 0:
            return sum(value for _, value in known) / len(known)
        return sum(value * weight for (_, value), weight in zip(known, weights, strict=True)) / total

    def missing(self, name: str) -> str:
        """Why a family gives no value; empty when it gives one."""
        if self.gauge(name) is not None:
            return ""
        if self.why:
            return self.why
        samples = self.families.get(name, ())
        if samples:
            return "SGLang reports no number (NaN) at present"
        if name.startswith("spec_"):
            return "no speculative figures: speculation is off, or nothing was decoded yet"
        return "this version of SGLang has no such metric, or nothing was decoded yet"

    def counters(self, name: str, label: str = "") -> dict[tuple[int, int, int, str], float]:
        """Counters by (data-parallel, pipeline, tensor-parallel rank, value of ``label``); several of the same are summed."""
        found: dict[tuple[int, int, int, str], float] = {}
        for sample in self.families.get(name, ()):
            if not math.isfinite(sample.value):
                continue
            key = (sample.rank("dp_rank"), sample.rank("pp_rank"), sample.rank("tp_rank"), sample.labels.get(label, ""))
            found[key] = found.get(key, 0.0) + sample.value
        return found

    def _leaders(self, name: str) -> list[Sample]:
        """The sample of the lowest rank of each data-parallel rank; of several processes' (``pid``) the last one written."""
        leaders: dict[int, tuple[tuple[int, int, int], Sample]] = {}
        for sample in self.families.get(name, ()):
            order = (sample.rank("pp_rank"), sample.rank("tp_rank"), sample.rank("moe_ep_rank"))
            known = leaders.get(sample.rank("dp_rank"))
            if known is None or order <= known[0]:
                leaders[sample.rank("dp_rank")] = (order, sample)
        return [sample for _, sample in leaders.values()]

    def _weight(self, leader: Sample) -> float:
        """Request-rounds of the leader's data-parallel rank are proportional to its running requests."""
        for sample in self._leaders("num_running_reqs"):
            if sample.rank("dp_rank") == leader.rank("dp_rank") and math.isfinite(sample.value):
                return max(0.0, sample.value)
        return 0.0


@dataclass(frozen=True, slots=True)
class StageMeans:
    """Mean GPU milliseconds per round of one rank; ``None`` where the timer has no such category."""

    draft_ms: float | None = None
    verify_ms: float | None = None
    extend_ms: float | None = None


@dataclass(frozen=True, slots=True)
class MetricsWindow:
    """What happened between two scrapes."""

    seconds: float | None = None
    rounds: int = 0
    """Decode (verify) passes of the leading ranks."""
    ranks: dict[int, StageMeans] = field(default_factory=dict)
    """Stage means by tensor-parallel rank (F17)."""
    stages: StageMeans = StageMeans()
    """Mean over the ranks."""
    graph_share: float | None = None
    """Fraction of decode passes that replayed a graph (F18)."""
    accept_len: float | None = None
    """From the counters of requests that ended: tokens after each request's first, per verify call."""
    tok_s: float | None = None
    stale: bool = False
    """Nothing was decoded: every gauge shows the past."""
    why: str = ""


def parse(text: str | bytes, at_s: float | None = None) -> Scrape:
    """The wanted families in a scrape's text; anything else than a scrape gives an empty one that says why."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", errors="replace")
    seen = 0
    wanted: list[str] = []
    for line in text[:SIZE_LIMIT_CHARS].split("\n"):
        if not line.startswith(("sglang:", "sglang_")) or len(line) > LINE_LIMIT_CHARS:
            continue
        seen += 1
        body = line[7:]
        if body.partition("{")[0].partition(" ")[0] in WANTED:
            wanted.append("sglang:" + body)
    if not seen:
        return Scrape(at_s=at_s, why=_not_a_scrape(text))
    families: dict[str, list[Sample]] = {}
    for name, sample in _samples(wanted):
        families.setdefault(name, []).append(sample)
    return Scrape(at_s=at_s, families={name: tuple(found) for name, found in families.items()}, seen=seen)


def _not_a_scrape(text: str) -> str:
    head = text[:200].lstrip()
    if "Not Found" in head or '"detail"' in head:
        return "the engine has no /metrics: it was started without --enable-metrics"
    if head.startswith(("<", "{", "[")):
        return "the answer is no metrics text: is this an SGLang server's address?"
    return "the metrics hold nothing of SGLang's: started without --enable-metrics, or not an SGLang server"


def _samples(lines: list[str]) -> Iterator[tuple[str, Sample]]:
    """Prometheus' own parser over the lines; a line it refuses is left out, the others are kept."""
    try:
        yield from list(_parsed(lines))
    except (ValueError, KeyError, IndexError, TypeError):
        for line in lines:
            try:
                yield from list(_parsed([line]))
            except (ValueError, KeyError, IndexError, TypeError):
                continue


def _parsed(lines: Iterable[str]) -> Iterator[tuple[str, Sample]]:
    from prometheus_client.parser import text_string_to_metric_families

    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        for sample in family.samples:
            yield sample.name.removeprefix("sglang:"), Sample(dict(sample.labels), float(sample.value))


def window(old: Scrape, new: Scrape) -> MetricsWindow:
    """The difference of two scrapes of the same engine; ranks whose counters went back are left out."""
    if new.why or old.why:
        return MetricsWindow(why=new.why or old.why)
    seconds = new.at_s - old.at_s if new.at_s is not None and old.at_s is not None and new.at_s > old.at_s else None
    passes, reset = _delta(old, new, "cuda_graph_passes_total", "mode")
    times, _ = _delta(old, new, "forward_execution_seconds_total", "category")
    tokens, _ = _delta(old, new, "realtime_tokens_total", "mode")
    rounds = _decode_rounds(passes)
    leading = _leading(rounds)
    total = sum(rounds[key] for key in leading)
    decoded = sum(value for key, value in tokens.items() if key[3] == "decode")
    if total <= 0 and decoded <= 0:
        why = "the engine was restarted between the scrapes" if reset else "nothing was decoded in this window"
        return MetricsWindow(seconds=seconds, stale=True, why=why)
    ranks = _stage_means(times, rounds)
    return MetricsWindow(
        seconds=seconds,
        rounds=round(total),
        ranks=ranks,
        stages=_mean_stages(list(ranks.values())),
        graph_share=_graph_share(passes),
        accept_len=_accept_len(old, new),
        tok_s=decoded / seconds if seconds and "realtime_tokens_total" in new.families else None,
        why="" if times else "no stage times: start the engine with SGLANG_ENABLE_METRICS_DEVICE_TIMER=1",
    )


Key = tuple[int, int, int, str]
Rank = tuple[int, int, int]


def _delta(old: Scrape, new: Scrape, name: str, label: str) -> tuple[dict[Key, float], bool]:
    """Differences of counters, and whether one went back. A series that is new counts from zero."""
    before = old.counters(name, label)
    after = new.counters(name, label)
    back = {key[:3] for key, value in before.items() if after.get(key, 0.0) < value}
    return {key: value - before.get(key, 0.0) for key, value in after.items() if key[:3] not in back}, bool(back)


def _decode_rounds(passes: dict[Key, float]) -> dict[Rank, float]:
    rounds: dict[Rank, float] = {}
    for (dp, pp, tp, mode), value in passes.items():
        if mode.startswith("decode_"):
            rounds[dp, pp, tp] = rounds.get((dp, pp, tp), 0.0) + value
    return rounds


def _leading(ranks: Iterable[Rank]) -> list[Rank]:
    """The lowest rank of each data-parallel rank: the others of its group count the same passes again."""
    lowest: dict[int, Rank] = {}
    for rank in sorted(ranks):
        lowest.setdefault(rank[0], rank)
    return list(lowest.values())


def _stage_means(times: dict[Key, float], rounds: dict[Rank, float]) -> dict[int, StageMeans]:
    """F17 per tensor-parallel rank, its data-parallel and pipeline ranks taken together."""
    sums: dict[int, dict[str, float]] = {}
    totals: dict[int, float] = {}
    for rank, count in rounds.items():
        totals[rank[2]] = totals.get(rank[2], 0.0) + count
    for (_, _, tp, category), value in times.items():
        for stage, categories in STAGES.items():
            if category in categories:
                found = sums.setdefault(tp, {})
                found[stage] = found.get(stage, 0.0) + value
    means: dict[int, StageMeans] = {}
    for tp, found in sorted(sums.items()):
        if totals.get(tp, 0.0) > 0:
            # A category that did not move ran elsewhere (an eager draft-extend counts as extend): not known, not zero.
            ms = {stage: 1000 * value / totals[tp] for stage, value in found.items() if value > 0}
            means[tp] = StageMeans(ms.get("draft"), ms.get("verify"), ms.get("extend"))
    return means


def _mean_stages(ranks: list[StageMeans]) -> StageMeans:
    def mean(values: list[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return sum(known) / len(known) if known else None

    return StageMeans(
        mean([rank.draft_ms for rank in ranks]),
        mean([rank.verify_ms for rank in ranks]),
        mean([rank.extend_ms for rank in ranks]),
    )


def _graph_share(passes: dict[Key, float]) -> float | None:
    total = sum(value for key, value in passes.items() if key[3].startswith("decode_"))
    replayed = sum(value for key, value in passes.items() if key[3].startswith("decode_") and key[3] != "decode_none")
    return replayed / total if total > 0 else None


def _accept_len(old: Scrape, new: Scrape) -> float | None:
    """Tokens per verify call of the requests that ended. Each one's first token comes from its prefill, not from a verify."""
    verifies, reset = _delta(old, new, "spec_verify_calls_total", "model_name")
    tokens, _ = _delta(old, new, "generation_tokens_total", "is_streaming")
    requests, _ = _delta(old, new, "num_requests_total", "is_streaming")
    calls = sum(verifies.values())
    if calls <= 0 or reset:
        return None
    length = (sum(tokens.values()) - sum(requests.values())) / calls
    return length if length >= 1 else None
