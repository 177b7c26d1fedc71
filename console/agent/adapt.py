"""From what each source says in its own terms to :mod:`console.agent.readings`."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from console import rig
from console.agent.readings import Gauges, RankWindow, Window
from console.engine import loads, metrics

if TYPE_CHECKING:
    from console.engine.batches import DecodeBatch
    from console.engine.server_info import EngineFacts

LOADS_WINDOW_S = 3.0
"""The engine publishes its sums every 15 rounds: two readings half a second apart may hold none or many."""
LOADS_KEPT = 16
PUBLISHED_ROUNDS = 15
"""SGLang's default of --load-snapshot-publish-interval."""
STUCK_S = 20.0
"""The HTTP process answers from shared memory also for a scheduler that hangs: with requests running the scheduler
renews its entry all the time, so an old entry is no longer true."""
LOG_RANK_S = 15.0
"""A data-parallel rank that has not logged for so long does not count."""


class LoadsFeed:
    """Follows ``/v1/loads``."""

    def __init__(self) -> None:
        self.window: Window | None = None
        self.gauges: Gauges | None = None
        self.why = ""
        self._readings: deque[tuple[float, loads.LoadsReading]] = deque(maxlen=LOADS_KEPT)
        self._stamp: float | None = None
        self._stamped_at_s = 0.0

    def take(self, reading: loads.LoadsReading, at_s: float) -> None:
        """Take one answer that came at ``at_s``."""
        self.why = reading.why
        if reading.why:
            return
        if self._stamp != reading.at_s or not reading.running:
            self._stamp, self._stamped_at_s = reading.at_s, at_s
        cycle_s = (self.window.cycle_ms or 0.0) / 1000 if self.window is not None else 0.0
        stuck = at_s - self._stamped_at_s > max(STUCK_S, 2 * PUBLISHED_ROUNDS * cycle_s)
        self.gauges = Gauges(
            source=rig.Source.LOADS,
            at_s=self._stamped_at_s if stuck else at_s,
            running=reading.running,
            queued=reading.queued,
            token_usage=reading.token_usage,
            tok_s=reading.gen_throughput_tok_s,
        )
        if self._readings and self._readings[-1][1].moments == reading.moments:
            return  # nothing was decoded since: the last window grows old
        self._readings.append((at_s, reading))
        young = [entry for entry in self._readings if at_s - entry[0] <= LOADS_WINDOW_S]
        before = young[0] if len(young) > 1 else self._readings[max(0, len(self._readings) - 2)]
        found = loads.window(before[1], reading)
        if found.rounds <= 0:
            self.why = "" if len(self._readings) < 2 else found.why
            return
        self.window = Window(
            source=rig.Source.LOADS,
            at_s=at_s,
            cycle_ms=found.cycle_ms,
            batch=found.batch,
            accept_len=found.accept_len,
            tok_s=found.tok_s,
            rounds=round(found.rounds),
        )


class MetricsFeed:
    """Follows ``/metrics``."""

    def __init__(self) -> None:
        self.window: Window | None = None
        self.gauges: Gauges | None = None
        self.why = ""
        self.stage_why = ""
        """Why there are no stage times although there are metrics."""
        self._last: metrics.Scrape | None = None

    def take(self, scrape: metrics.Scrape, at_s: float) -> None:
        """Take one scrape that came at ``at_s``."""
        self.why = scrape.why
        if scrape.why:
            self._last = None
            return
        self.gauges = Gauges(
            source=rig.Source.METRICS,
            at_s=at_s,
            running=scrape.gauge("num_running_reqs"),
            queued=scrape.gauge("num_queue_reqs"),
            token_usage=scrape.gauge("token_usage"),
            # Both gauges are 0 until the first decode; a real depth of 0 verifies 1 token.
            depth=scrape.gauge("spec_num_steps") if scrape.gauge("spec_num_draft_tokens") else None,
            tok_s=scrape.gauge("gen_throughput"),
        )
        before, self._last = self._last, scrape
        if before is None:
            return
        found = metrics.window(before, scrape)
        if found.why and not found.stale:
            self.stage_why = found.why
        if found.stale or found.rounds <= 0:
            return  # the gauges show the past: the last window grows old
        self.window = Window(
            source=rig.Source.METRICS,
            at_s=at_s,
            # The gauge is of the last few rounds; the counters move at the end of requests only.
            accept_len=scrape.gauge("spec_accept_length") or found.accept_len,
            accept_rate=scrape.gauge("spec_accept_rate"),
            tok_s=found.tok_s,
            graph_share=found.graph_share,
            draft=_stage(found.stages.draft_ms, found.rounds, at_s),
            verify=_stage(found.stages.verify_ms, found.rounds, at_s),
            extend=_stage(found.stages.extend_ms, found.rounds, at_s),
            ranks=tuple(
                RankWindow(rank, means.draft_ms, means.verify_ms, means.extend_ms)
                for rank, means in sorted(found.ranks.items())
            ),
        )


def _stage(mean_ms: float | None, rounds: int, at_s: float) -> rig.Stage | None:
    if mean_ms is None:
        return None
    return rig.Stage(mean_ms=mean_ms, rounds=rounds, source=rig.Source.METRICS, at_s=at_s)


class LogFeed:
    """Follows the decode lines of the log: data-parallel ranks log each for itself."""

    def __init__(self) -> None:
        self._batches: dict[str, tuple[float, DecodeBatch]] = {}

    def take(self, batch: DecodeBatch, at_s: float) -> None:
        """Take one decode line that was written at ``at_s``."""
        self._batches[batch.rank] = (at_s, batch)

    @property
    def window(self) -> Window | None:
        """The newest lines of all ranks together."""
        if not self._batches:
            return None
        newest = max(at_s for at_s, _ in self._batches.values())
        batches = [batch for at_s, batch in self._batches.values() if newest - at_s <= LOG_RANK_S]
        return Window(
            source=rig.Source.LOG,
            at_s=newest,
            cycle_ms=_mean([(batch.cycle_ms, batch.running) for batch in batches]),
            batch=_mean([(float(batch.running), 1) for batch in batches]),
            accept_len=_mean([(batch.accept_len, batch.running) for batch in batches]),
            accept_rate=_mean([(batch.accept_rate, batch.running) for batch in batches]),
            tok_s=sum(batch.tok_s for batch in batches),
            depth=next((float(batch.depth) for batch in batches if batch.depth is not None), None),
            graph_share=_mean([(None if batch.graph is None else float(batch.graph), 1) for batch in batches]),
        )

    @property
    def gauges(self) -> Gauges | None:
        """What the newest lines say of the load."""
        if not self._batches:
            return None
        newest = max(at_s for at_s, _ in self._batches.values())
        batches = [batch for at_s, batch in self._batches.values() if newest - at_s <= LOG_RANK_S]
        return Gauges(
            source=rig.Source.LOG,
            at_s=newest,
            running=float(sum(batch.running for batch in batches)),
            queued=float(sum(batch.queued for batch in batches)),
            token_usage=_mean([(batch.token_usage, 1) for batch in batches]),
        )


def _mean(weighted: list[tuple[float | None, int]]) -> float | None:
    known = [(value, weight) for value, weight in weighted if value is not None and weight > 0]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None


def facts_gauges(facts: EngineFacts, at_s: float) -> Gauges:
    """The live depth that ``/server_info`` tells."""
    return Gauges(source=rig.Source.SERVER_INFO, at_s=at_s, depth=None if facts.depth is None else float(facts.depth))
