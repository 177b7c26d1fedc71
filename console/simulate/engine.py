"""The simulated scheduler: continuous batching, rounds of speculation, and every counter SGLang keeps about them."""

from __future__ import annotations

import random
import time
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from console.simulate.adaptive import Policy
from console.simulate.model import Costs, Drafter, Round, drafter
from console.simulate.timing import StageTimes
from console.simulate.traffic import Clients, Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.simulate.options import Options

CONTIGUOUS_S = 2.0
"""SGLang counts a decode step into decode_moments only when the last one is not older than this."""
SLOW_FACTOR = 1.35
STAGES = ("draft", "verify", "extend", "cycle")


@dataclass
class Window:
    """What SGLang sums up between two decode log lines."""

    batches: int = 0
    rounds: int = 0
    accepted: int = 0
    tokens: int = 0
    busy_ms: float = 0.0
    since_s: float = 0.0


@dataclass
class Gauges:
    """The figures of the last decode report; sticky, as SGLang's are."""

    accept_length: float = 0.0
    accept_rate: float = 0.0
    gen_throughput: float = 0.0
    fwd_occupancy: float = float("nan")
    num_steps: int = 0


@dataclass
class Acceptance:
    """Counters since the start of the rank."""

    steps: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    tries: list[int] = field(default_factory=list)
    hits: list[int] = field(default_factory=list)

    def add(self, accepted: int, depth: int) -> None:
        """One verify of one request."""
        self.rounds += 1
        self.drafted += depth
        self.accepted += accepted
        if len(self.tries) < depth:
            self.tries.extend([0] * (depth - len(self.tries)))
            self.hits.extend([0] * (depth - len(self.hits)))
        for position in range(min(accepted + 1, depth)):
            self.tries[position] += 1
        for position in range(accepted):
            self.hits[position] += 1


class Engine:
    """Everything between the routes and the clock. :meth:`advance` is called a few times a second and catches up.

    Args:
        options: the launch.
        log: prints one line of rank 0's log.
        clock: monotonic seconds; tests inject one.
    """

    def __init__(
        self, options: Options, log: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.options = options
        self.log = log
        self.clock = clock
        self.rng = random.Random(options.seed)  # noqa: S311 - a simulation, not a secret
        self.costs = Costs()
        self.faults = options.faults
        self.clients = Clients(options.clients, self.rng)
        self.running: list[Request] = []
        self.queue: deque[Request] = deque()
        self.paused = False
        self.draining = False
        self.depth = options.depth
        self.pinned: int | None = None
        self.policy = Policy(options.tiers, options.depth) if options.tiers and options.policy else None
        self.drafter_since_s = time.time()
        self.switches: deque[tuple[float, int, int, str]] = deque(maxlen=50)
        self.acceptance = Acceptance()
        self.stages = {stage: StageTimes() for stage in STAGES}
        self.gauges = Gauges(num_steps=options.depth)
        self.window = Window(since_s=clock())
        self.moments = [0.0] * 6
        self.graph_passes: dict[str, int] = {}
        self.forward_s: dict[str, float] = {}
        self.realtime = {"prefill_compute": 0, "decode": 0, "prefill_cache": 0}
        self.finished = 0
        self.prompt_tokens = 0
        self.generation_tokens = 0
        self.verify_calls = 0
        self.idle_s = 0.0
        self._drafter = drafter(options.drafter) if options.speculative else None
        self._now = clock()
        self._last_step: float | None = None

    # ------------------------------------------------------------------------------------------- commands

    @property
    def drafter(self) -> Drafter | None:
        """The loaded drafter; ``None`` without speculation."""
        if self._drafter and "silent" in self.faults:
            return Drafter(self._drafter.name, (0.0,))
        return self._drafter

    def load_drafter(self, name: str) -> None:
        """Put another drafter in, in place."""
        self._drafter = drafter(name)
        self.drafter_since_s = time.time()

    def pin(self, depth: int | None) -> None:
        """Hold a depth, or give the choice back to the policy; an engine without requests has no round to change at."""
        self.pinned = depth

    def submit(self, request: Request) -> None:
        """Queue a request."""
        self.queue.append(request)

    def warm_up(self) -> None:
        """The request SGLang sends itself before it calls itself ready: a prefill, no decode."""
        self._now = self.clock()
        self.window = Window(since_s=self._now)
        self.realtime["prefill_compute"] += 6
        self._pass("prefill_cuda_graph")
        self.log(
            "Prefill batch, #new-seq: 1, #new-token: 6, #cached-token: 0, token usage: 0.00, #running-req: 0, "
            f"#queue-req: 0, #pending-token: 0, cuda graph: True, input throughput (token/s): 1.53{self._occupancy()}"
        )

    def abort_all(self) -> int:
        """Drop every request, as pausing with mode "abort" does; how many there were."""
        requests = [*self.running, *self.queue]
        for request in requests:
            request.aborted = True
            request.finished_s = self._now
            request.done.set()
        self.running.clear()
        self.queue.clear()
        return len(requests)

    def retract_all(self) -> None:
        """Put the running requests back into the queue, as pausing with mode "retract" does."""
        self.queue.extendleft(reversed(self.running))
        self.running.clear()

    @property
    def used_tokens(self) -> int:
        """KV slots in use."""
        return sum(request.tokens for request in self.running)

    @property
    def token_usage(self) -> float:
        """Share of the KV pool in use."""
        return self.used_tokens / self.options.max_total_tokens

    # ---------------------------------------------------------------------------------------------- clock

    def advance(self) -> None:
        """Catch up with the clock: admit, decode round by round, finish."""
        until = self.clock()
        if until - self._now > 5.0:
            self._now = until - 0.1  # the process was stopped; nothing was decoded meanwhile
        while self._now < until:
            if not self.draining:
                own = sum(request.own for request in (*self.running, *self.queue))
                self.queue.extend(self.clients.due(self._now, own))
            if self.paused or not (self.running or self.queue):
                self.idle_s += until - self._now
                self._now = until
                return
            self._admit()
            self._decode()

    def _admit(self) -> None:
        free = self.options.max_running - len(self.running)
        new = [self.queue.popleft() for _ in range(min(free, len(self.queue)))]
        if not new:
            return
        tokens = sum(request.prompt_tokens for request in new if not request.generated)
        seconds = 0.02 + tokens / 9000
        running = len(self.running)
        for request in new:
            request.started_s = request.started_s or self._now
            request.first_token_s = request.first_token_s or self._now + seconds
            request.generated = request.generated or 1
        self._now += seconds
        self.running.extend(new)
        self.realtime["prefill_compute"] += tokens
        self._pass("prefill_cuda_graph")
        self._forward("extend", seconds * 1000)
        self.log(
            f"Prefill batch, #new-seq: {len(new)}, #new-token: {tokens}, #cached-token: 0, "
            f"token usage: {self.token_usage:.2f}, #running-req: {running}, #queue-req: {len(self.queue)}, #pending-token: "
            f"{sum(request.prompt_tokens for request in self.queue)}, cuda graph: True, "
            f"input throughput (token/s): {tokens / seconds:.2f}{self._occupancy()}"
        )

    def _decode(self) -> None:
        batch = len(self.running)
        depth = self._depth_for(batch)
        exact = self.costs.round(batch, depth, speculative=self.options.speculative)
        times = exact.scaled(self.rng.lognormvariate(0.0, 0.02))
        if "slow_rank" in self.faults:
            times = replace(times, draft=times.draft * SLOW_FACTOR, verify=times.verify * SLOW_FACTOR)
        self._now += times.cycle / 1000
        accepted_all, new_all = 0, 0
        model = self.drafter
        for request in self.running:
            accepted = model.accepted(depth, self.rng) if model else 0
            accepted_all += accepted
            new_all += request.take(accepted, depth) if model else self._plain(request)
            if model:
                self.acceptance.add(accepted, depth)
        self._book(times, batch, depth, accepted_all, new_all)
        for request in [request for request in self.running if request.generated >= request.max_tokens]:
            self._finish(request)

    def _plain(self, request: Request) -> int:
        request.generated += 1
        return 1

    def _depth_for(self, batch: int) -> int:
        if self.pinned is not None:
            self._switch(self.pinned, "pinned")
        elif self.policy:
            self._switch(self.policy.depth_for(batch), "adaptive")
        else:
            self._switch(self.options.depth, "adaptive")
        return self.depth

    def _switch(self, depth: int, by: str) -> None:
        if depth == self.depth:
            return
        self.log(
            f"Switch adaptive runtime state: steps {self.depth} -> {depth}, "
            f"draft_tokens {self.depth + 1} -> {depth + 1}"
        )
        self.switches.append((round(time.time(), 3), self.depth, depth, by))
        self.depth = depth

    def _book(self, times: Round, batch: int, depth: int, accepted: int, new: int) -> None:
        self.acceptance.steps += 1
        for stage in ("draft", "verify", "extend", "cycle"):
            value = getattr(times, stage)
            if value:
                self.stages[stage].add(value, batch)
        self._pass("decode_cuda_graph")
        if self.options.speculative:
            self._forward("target_verify", times.verify)
            self._forward("eagle_draft", times.draft)
            self._forward("eagle_draft_extend", times.extend)
        else:
            self._forward("decode", times.verify)
        self.realtime["decode"] += new
        if self._last_step is not None and self._now - self._last_step < CONTIGUOUS_S:
            micros = times.cycle * 1000
            values = (1, batch, micros, batch * batch, batch * micros, new)
            self.moments = [have + value for have, value in zip(self.moments, values, strict=True)]
        self._last_step = self._now
        window = self.window
        window.batches += 1
        window.rounds += batch
        window.accepted += accepted
        window.tokens += new
        window.busy_ms += times.cycle - times.gap
        if window.batches >= self.options.decode_log_interval:
            self._report(depth, batch)
        if self.policy and self.pinned is None:
            old = self.depth
            if (chosen := self.policy.observe(accepted / batch, batch)) is not None:
                mean = self.policy.mean or 0.0
                self.log(f"Adaptive spec params updated: steps {old} -> {chosen} (ema_accept_len={mean:.2f})")

    def _report(self, depth: int, batch: int) -> None:
        """One decode log line, and the gauges that move with it."""
        window, self.window = self.window, Window(since_s=self._now)
        seconds = max(self._now - window.since_s, 1e-6)
        gauges = self.gauges
        gauges.gen_throughput = window.tokens / seconds
        gauges.fwd_occupancy = min(100.0, window.busy_ms / seconds / 10)
        gauges.num_steps = depth
        spec = ""
        if self.options.speculative:
            gauges.accept_length = 1 + window.accepted / window.rounds
            gauges.accept_rate = window.accepted / (window.rounds * depth) if depth else 0.0
            spec = f"accept len: {gauges.accept_length:.2f}, accept rate: {gauges.accept_rate:.2f}, "
        self.log(
            f"Decode batch, #running-req: {batch}, #token: {self.used_tokens}, token usage: {self.token_usage:.2f}, "
            f"{spec}cuda graph: True, gen throughput (token/s): {gauges.gen_throughput:.2f}, #queue-req: {len(self.queue)}"
            f"{self._occupancy()}"
        )

    def _finish(self, request: Request) -> None:
        self.running.remove(request)
        request.finished_s = self._now
        self.finished += 1
        self.prompt_tokens += request.prompt_tokens
        self.generation_tokens += request.generated
        self.verify_calls += request.verifies
        request.done.set()

    def _pass(self, mode: str) -> None:
        self.graph_passes[mode] = self.graph_passes.get(mode, 0) + 1

    def _forward(self, category: str, ms: float) -> None:
        if ms:
            self.forward_s[category] = self.forward_s.get(category, 0.0) + ms / 1000

    def _occupancy(self) -> str:
        return f", fwd occupancy: {self.gauges.fwd_occupancy:.2f}%" if self.options.device_timer else ""

    # ---------------------------------------------------------------------------------------------- ranks

    def rank_factor(self, rank: int) -> float:
        """How a rank's stage times differ from rank 0's: a few tenths of a percent, or the slow rank's lot."""
        skew = 1.0 + 0.0015 * ((rank * 5) % 8)
        if "slow_rank" in self.faults and rank != int(self.faults.argument("slow_rank", 0)):
            return skew / SLOW_FACTOR
        return skew
