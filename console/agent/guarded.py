"""The guard as an operation's last step: watch, tell, keep the record."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial

from console import rig
from console.agent import guard
from console.agent.guard import Outcome, Rule
from console.agent.operate import Run
from console.agent.records import Record, Records
from console.errors import ConsoleError
from profiles.schema import Profile

log = logging.getLogger(__name__)

WATCH = "watch accept_len"
OBSERVED_S = 60.0
"""Time under load that makes a record of a drafter that serves."""
OBSERVED_EVERY_S = 1800.0


class Guarded:
    """Watches changes of one rig.

    Args:
        sample: the newest snapshot.
        records: what each drafter did here; ``None``: not kept.
        fingerprint: of the rig as it runs now.
    """

    def __init__(
        self,
        sample: Callable[[], rig.Snapshot],
        records: Records | None = None,
        fingerprint: Callable[[], str] = lambda: "",
    ) -> None:
        self._sample = sample
        self._records = records
        self._fingerprint = fingerprint

    def rule(self, profile: Profile) -> Rule:
        """The floor for another drafter, from what the one before does now."""
        now = self._sample()
        return guard.rule_for(profile.guard, guard.before(now), depth_before=guard.depth_of(now) or None)

    def depth_rule(self, profile: Profile, depth_before: int | None, depth_after: int) -> Rule:
        """The floor for another depth of the same drafter."""
        earlier = guard.before(self._sample()) if depth_before else None
        return guard.rule_for(profile.guard, earlier, depth_before=depth_before, depth_after=depth_after)

    async def see(
        self, run: Run, rule: Rule, *, drafter: str, profile: str, alive: Callable[[], bool] = lambda: True
    ) -> Outcome:
        """Watch what was changed just now; whoever asked may cancel at any time.

        Raises:
            asyncio.CancelledError: it was cancelled; nothing was taken back yet.
        """
        run.step(WATCH, f"accept_len has to hold {rule.floor:.2f}")
        run.cancellable(possible=True)
        outcome = await guard.watch(self._sample, rule, time.time(), report=run.detail, alive=alive)
        run.detail(outcome.message)
        run.cancellable(possible=False)
        said = "kept" if outcome.kept else "rolled back"
        await self.keep(drafter, outcome, profile, said, depth=rule.depth)
        return outcome

    async def observe(self) -> None:
        """Keep what serving drafters do between the changes, now and then. Runs until cancelled."""
        kept: tuple[object, ...] | None = None
        kept_at_s = 0.0
        while True:
            await asyncio.sleep(1.0)
            engine, serving = self._sample().engine, _serving(self._sample())
            due = serving != kept or time.monotonic() - kept_at_s > OBSERVED_EVERY_S
            if serving is None or not engine.drafter or not due:
                continue
            still = partial(self._still, serving)
            outcome = await guard.watch(self._sample, Rule(0.0, "", OBSERVED_S), time.time(), alive=still, period_s=1.0)
            if outcome.kept and outcome.proven:
                await self.keep(engine.drafter, outcome, engine.profile, "served")
                kept, kept_at_s = serving, time.monotonic()

    def _still(self, serving: tuple[object, ...]) -> bool:
        return _serving(self._sample()) == serving

    async def keep(
        self, drafter: str, outcome: Outcome, profile: str, said: str, *, depth: float | None = None
    ) -> None:
        """Put what was seen, at ``depth`` or at that of now, into the drafter's record; a bad disk changes nothing else."""
        if self._records is None or outcome.accept_len is None or not outcome.proven or not drafter:
            return
        snapshot = self._sample()
        now = snapshot.acceptance.depth.value
        record = Record(
            at_s=snapshot.at_s, accept_len=round(outcome.accept_len, 3), seconds=round(outcome.seconds, 1),
            tok_s=None if outcome.tok_s is None else round(outcome.tok_s, 2), depth=now if depth is None else depth,
            running=snapshot.load.running.value, fingerprint=self._fingerprint(), outcome=said, profile=profile,
        )  # fmt: skip
        try:
            await asyncio.to_thread(self._records.add, drafter, record)
        except ConsoleError as error:
            log.warning("%s", error.line)


def _serving(snapshot: rig.Snapshot) -> tuple[object, ...] | None:
    """What a record would be of; ``None`` while nothing serves undisturbed."""
    engine, operation = snapshot.engine, snapshot.operation
    if engine.state is not rig.EngineState.READY or not engine.algorithm:
        return None
    if operation is not None and operation.state is rig.OperationState.RUNNING:
        return None
    return engine.pid, engine.drafter, engine.profile, snapshot.acceptance.depth.value
