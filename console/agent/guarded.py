"""The guard as an operation's last step: watch, tell, keep the record."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from console import rig
from console.agent import guard
from console.agent.guard import Outcome, Rule
from console.agent.operate import Run
from console.agent.records import Record, Records
from console.errors import ConsoleError
from profiles.schema import Profile

log = logging.getLogger(__name__)

WATCH = "watch accept_len"


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
        return guard.rule_for(profile.guard, guard.before(self._sample()))

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
        await self.keep(drafter, outcome, profile, "kept" if outcome.kept else "rolled back")
        return outcome

    async def keep(self, drafter: str, outcome: Outcome, profile: str, said: str) -> None:
        """Put what was seen into the drafter's record; trouble with the disk changes nothing else."""
        if self._records is None or outcome.accept_len is None or not outcome.proven or not drafter:
            return
        snapshot = self._sample()
        record = Record(
            at_s=snapshot.at_s, accept_len=round(outcome.accept_len, 3),
            tok_s=None if outcome.tok_s is None else round(outcome.tok_s, 2), depth=snapshot.acceptance.depth.value,
            running=snapshot.load.running.value, seconds=round(outcome.seconds, 1), fingerprint=self._fingerprint(),
            outcome=said, profile=profile,
        )  # fmt: skip
        try:
            await asyncio.to_thread(self._records.add, drafter, record)
        except ConsoleError as error:
            log.warning("%s", error.line)
