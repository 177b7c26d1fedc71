"""What a fault is here: a name, a round of it, and what a round tells."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.rig import FaultRig


class NotSurvivedError(AssertionError):
    """A check of a round does not hold; says which."""


class NotPossibleError(Exception):
    """This box cannot do the fault (no root, no compiler); the kind is told as not tried."""


@dataclass(frozen=True)
class Outcome:
    """One round that was survived.

    Attributes:
        noticed_s: seconds from the fault to the moment named by the kind; ``None`` where there is nothing to notice.
        lost: what is gone for good; empty for nothing.
    """

    noticed_s: float | None
    lost: str = ""


@dataclass(frozen=True)
class Kind:
    """One kind of fault.

    Attributes:
        name: as the table has it.
        rounds: of the default run; another number of rounds scales it.
        noticed: the moment up to which :attr:`Outcome.noticed_s` is counted.
        round: does one and raises :class:`NotSurvivedError` when a check fails.
        harms: the engine is what is hurt; otherwise it must be the same process before and after.
        pauses: the agent itself stands still, so a gap in its samples is no loss.
    """

    name: str
    rounds: int
    noticed: str
    round: Callable[[FaultRig, random.Random], Outcome]
    harms: bool = False
    pauses: bool = False


@dataclass(frozen=True)
class Family:
    """Kinds that share a rig.

    Attributes:
        name: of the rig, too.
        rig: makes it in a folder that the caller removes.
        kinds: in the order in which they are tried.
        steady: the agent runs and records through every round: its samples must have no gap.
    """

    name: str
    rig: Callable[[str, Path], AbstractContextManager[FaultRig]]
    kinds: tuple[Kind, ...]
    steady: bool = False


@dataclass
class Tally:
    """What came of a kind."""

    kind: Kind
    tried: int = 0
    noticed_s: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    lost: dict[str, int] = field(default_factory=dict)
    skipped: str = ""
    """Why it was not tried at all."""

    @property
    def survived(self) -> int:
        """Rounds whose every check held."""
        return self.tried - len(self.failures)


def check(condition: object, what: str) -> None:
    """Hold a claim of a round.

    Raises:
        NotSurvivedError: it does not hold.
    """
    if not condition:
        raise NotSurvivedError(what)
