"""Live swap of the drafter: check, read, agree, exchange in place, prove, agree again, or put everything back.

Reading happens in a thread of its own (:meth:`Swap.stage`), so that the scheduler only stops for the copy.
Verification guards the text: a drafter can make the engine slow, not wrong.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sglang_console_probe.agree import LONG_S, QUICK_S, Agreement, Verdict
from sglang_console_probe.bank import Bank, Resident
from sglang_console_probe.checkpoint import Checkpoint, CheckpointRefused, load, open_checkpoint
from sglang_console_probe.drafter import Drafter, DrafterError
from sglang_console_probe.guard import reason

logger = logging.getLogger("sglang_console_probe")

RESIDENT = 1
"""Drafters kept beside the loaded one unless a command says otherwise: the one before it."""


@dataclass
class Outcome:
    """What came of it on this rank."""

    ok: bool
    message: str
    seconds: dict[str, float] = field(default_factory=dict)
    checksum: str = ""


class Clock:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._begun = self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        """The time since the last lap belongs to this phase."""
        now = time.perf_counter()
        self.seconds[phase] = round(self.seconds.get(phase, 0.0) + now - self._last, 6)
        self.seconds["total"] = round(now - self._begun, 6)
        self._last = now


class Swap:
    """The drafter of one rank and what may take its place.

    Args:
        scheduler: SGLang's.
        live_why: why this layout allows no live change; empty when it does.
        synchronize: waits for the device.
    """

    def __init__(self, scheduler: Any, live_why: str, synchronize: Callable[[], None]) -> None:
        self._synchronize = synchronize
        self._bank = Bank()
        self._staged: Checkpoint | None = None
        self._reader: threading.Thread | None = None
        self._drafter: Drafter | None = None
        self._running: Checkpoint | None = None
        """What the engine was started with: all that comes later has its shapes."""
        self._fingerprint = ""
        self.refuse: dict[str, str] = {}
        """A test asked this rank to refuse: the vote -> why."""
        self.path, self.checksum, self.since_s, self.why = "", "", time.time(), live_why
        try:
            self._drafter = Drafter(scheduler)
            self._running = open_checkpoint(self._drafter.path or Path())
            self._fingerprint = self._running.fingerprint
            self.path = str(self._drafter.path)
            self.checksum = self._drafter.checksum()
            self._drafter.check(self._running, self._running)
        except (DrafterError, CheckpointRefused) as error:
            self.why = self.why or str(error)
        except Exception as error:
            logger.warning("The console's probe cannot swap drafters: %s", reason(error), exc_info=error)
            self.why = self.why or reason(error)

    @property
    def resident(self) -> list[str]:
        """Drafters that need no reading, the loaded one first."""
        return [self.path, *self._bank.paths] if self.path else []

    @property
    def _reading(self) -> bool:
        return self._reader is not None and self._reader.is_alive()

    # ------------------------------------------------------------------------------------------ reading

    def stage(self, path: Any, answer: Callable[[Outcome], None]) -> None:
        """Check and read a checkpoint in a thread; ``answer`` is called from there.

        Raises:
            CheckpointRefused: it is not even started.
        """
        if self.why:
            raise CheckpointRefused(self.why)
        if self._reading:
            raise CheckpointRefused("another drafter is being read")
        self._reader = threading.Thread(
            target=self._stage, args=(path, answer), name="console-probe-stage", daemon=True
        )
        self._reader.start()

    def unstage(self) -> None:
        """Let go of what was read: another rank could not read it."""
        self._staged = None

    def _stage(self, path: Any, answer: Callable[[Outcome], None]) -> None:
        clock = Clock()
        try:
            self._staged = None
            self._staged = self._read(path, clock)
            outcome = Outcome(ok=True, message=f"read {self._staged.size} bytes", seconds=clock.seconds)
        except CheckpointRefused as error:
            outcome = Outcome(ok=False, message=str(error), seconds=clock.seconds)
        except Exception as error:
            outcome = Outcome(ok=False, message=reason(error), seconds=clock.seconds)
        answer(outcome)

    def _read(self, path: Any, clock: Clock) -> Checkpoint:
        offered = self._open(path)
        clock.lap("check")
        load(offered)
        if self._drafter is not None:
            self._drafter.check_map(offered)
        clock.lap("read")
        return offered

    def _open(self, path: Any) -> Checkpoint:
        if self._drafter is None or self._running is None:
            raise CheckpointRefused(self.why)
        if not isinstance(path, str) or not path:
            raise CheckpointRefused("a swap names a folder")
        offered = open_checkpoint(Path(path).resolve())
        self._drafter.check(self._running, offered)
        return offered

    # ------------------------------------------------------------------------------------------ exchange

    def commit(self, path: Any, options: dict[str, Any], agreement: Agreement) -> Outcome:
        """Exchange the drafter on all ranks or on none.

        Runs on the scheduler's thread, in the same iteration on every rank.
        """
        clock = Clock()
        source, why = self._prepare(path, clock)
        read_now = "read" in clock.seconds
        verdict = agreement.reach(
            "ready",
            self.refuse.get("ready", "") or why,
            of=source.fingerprint if source else "",
            within_s=LONG_S if read_now else QUICK_S,
        )
        clock.lap("agree")
        if not verdict.go or source is None or self._drafter is None:
            self._staged = None
            return Outcome(
                ok=False,
                message=f"refused, nothing loaded: {verdict.why}",
                seconds=clock.seconds,
                checksum=self.checksum,
            )
        self._synchronize()
        clock.lap("wait")
        return self._apply(source, options, agreement, clock)

    def _apply(
        self, source: Checkpoint | Resident, options: dict[str, Any], agreement: Agreement, clock: Clock
    ) -> Outcome:
        """Exchange, and put everything back unless every rank has done it. Every path to the vote says how it went."""
        saved: list[Any] | None = None
        proof = ""
        try:
            saved = self._saved()
            clock.lap("save")
            why, proof = self._exchange(source, clock)
        except Exception as error:
            logger.warning("The console's probe could not load a drafter: %s", reason(error), exc_info=error)
            why = reason(error)
        try:
            verdict = agreement.reach("loaded", self.refuse.get("loaded", "") or why, within_s=LONG_S)
        except Exception as error:
            verdict = Verdict(go=False, why=f"the ranks could not agree: {reason(error)}")
        clock.lap("agree")
        if not verdict.go or saved is None:
            return self._roll_back(saved, verdict.why, clock)
        self._took(source, saved, proof, options)
        kind = "kept" if isinstance(source, Resident) else "read"
        return Outcome(ok=True, message=f"loaded {self.path} ({kind})", seconds=clock.seconds, checksum=proof)

    def _prepare(self, path: Any, clock: Clock) -> tuple[Checkpoint | Resident | None, str]:
        """What to load: kept, staged before, or read now; or why nothing can be loaded."""
        if self.why:
            return None, self.why
        if self._reading:
            return None, "a drafter is still being read"
        try:
            offered = self._open(path)
            clock.lap("check")
            if (resident := self._bank.get(str(offered.path), offered.fingerprint)) is not None:
                return resident, ""
            if self._staged is not None and self._staged.fingerprint == offered.fingerprint:
                return self._staged, ""
            return self._read(path, clock), ""
        except CheckpointRefused as error:
            return None, str(error)
        except Exception as error:
            return None, reason(error)

    def _saved(self) -> list[Any]:
        assert self._drafter is not None  # noqa: S101 - commit has looked
        return self._drafter.save()

    def _exchange(self, source: Checkpoint | Resident, clock: Clock) -> tuple[str, str]:
        """Write the weights; what is wrong with them, and their checksum.

        Raises:
            Exception: whatever the loader says; the weights may be half loaded.
        """
        assert self._drafter is not None  # noqa: S101 - commit has looked
        if isinstance(source, Resident):
            self._drafter.restore(source.saved)
        else:
            self._drafter.load(source)
        self._synchronize()
        clock.lap("load")
        proof = self._drafter.checksum()
        clock.lap("checksum")
        if isinstance(source, Resident) and proof != source.checksum:
            return f"checksum {proof} instead of {source.checksum}", proof
        return "", proof

    def _took(self, source: Checkpoint | Resident, saved: list[Any], proof: str, options: dict[str, Any]) -> None:
        """Remember what is loaded now, and keep the former one as the options say."""
        former = Resident(self.path, self._fingerprint, self.checksum, saved)
        self._staged = None
        self.path, self._fingerprint = str(source.path), source.fingerprint
        self.checksum, self.since_s = proof, time.time()
        self._bank.drop(self.path)
        if former.path != self.path:
            most = _count(options.get("resident"), RESIDENT)
            self._bank.put(former, most, _count(options.get("resident_bytes"), None))

    def _roll_back(self, saved: list[Any] | None, why: str, clock: Clock) -> Outcome:
        """Write the former weights back, where anything was written at all, and prove it."""
        assert self._drafter is not None  # noqa: S101 - commit has looked
        self._staged = None
        now = ""
        try:
            if saved is not None:
                self._drafter.restore(saved)
                self._synchronize()
            clock.lap("roll back")
            now = self._drafter.checksum()
            clock.lap("checksum")
        except Exception as error:
            why = f"{why}; {reason(error)}"
        if now == self.checksum:
            return Outcome(ok=False, message=f"rolled back: {why}", seconds=clock.seconds, checksum=now)
        message = (
            f"could not be rolled back, restart the engine: checksum {now or 'unknown'}, was {self.checksum}; {why}"
        )
        return Outcome(ok=False, message=message, seconds=clock.seconds, checksum=now)


def _count(value: Any, default: Any) -> Any:
    """A limit of a command's options."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default
