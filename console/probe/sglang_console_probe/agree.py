"""All ranks decide the same, or nothing happens.

A collective would wait for ever for a rank whose probe is off, and SGLang's watchdog would then kill the server. So
the ranks, which share a folder, vote with files under a deadline, and the decision is a file that can be created only
once: of those who see every vote, and those who run out of time, the first one decides and all obey.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sglang_console_probe.files import create_whole, read_object, write_whole

POLL_S = 0.0005
QUICK_S = 5.0
"""For votes that every rank can cast at once; meanwhile nothing is decoded."""
LONG_S = 60.0
"""For votes that take reading or loading a drafter. SGLang's watchdog waits 300 s for an iteration."""
PHASES = ("depth", "ready", "loaded")
"""All votes that there are."""
LAST_WORD_S = 5.0
"""How long a decision that exists may take to become readable."""


@dataclass(frozen=True)
class Verdict:
    """What all ranks hold to be decided."""

    go: bool
    why: str = ""
    """The reasons of those who refused, by rank."""


class Agreement:
    """The votes of one command.

    Args:
        folder: shared by all ranks.
        number: the command's.
        rank: this one.
        ranks: how many there are.
    """

    def __init__(self, folder: Path, number: int, rank: int, ranks: int) -> None:
        self._folder = folder
        self._number = number
        self._rank = rank
        self._ranks = ranks

    def decline(self, why: str) -> None:
        """Vote against whatever the others have not decided yet, and take no further part.

        Raises:
            OSError: the folder cannot be written.
        """
        for phase in PHASES if self._ranks > 1 else ():
            write_whole(self._vote(phase, self._rank), json.dumps({"why": why, "of": ""}).encode())

    def reach(self, phase: str, why: str, of: str = "", within_s: float = QUICK_S) -> Verdict:
        """Vote, and wait for the decision.

        Args:
            phase: which of the command's votes.
            why: why this rank cannot; empty when it can.
            of: what it votes on; ranks that mean different things do not agree.
            within_s: a rank that has not voted by then refuses.

        Raises:
            OSError: the folder cannot be written; this rank takes no part, so the others refuse.
        """
        if self._ranks == 1:
            return Verdict(go=not why, why=why)
        write_whole(self._vote(phase, self._rank), json.dumps({"why": why, "of": of}).encode())
        decision = self._folder / f"decision-{self._number}-{phase}.json"
        end = time.monotonic() + within_s
        while True:
            if (verdict := _read(decision)) is not None:
                return verdict
            proposal = self._count(phase, within_s, late=time.monotonic() > end)
            if proposal is not None:
                with suppress(OSError):  # another rank may still be able to write it
                    create_whole(decision, json.dumps({"go": proposal.go, "why": proposal.why}).encode())
                return _last_word(decision)
            time.sleep(POLL_S)

    def _vote(self, phase: str, rank: int) -> Path:
        return self._folder / f"vote-{self._number}-{phase}-{rank}.json"

    def _count(self, phase: str, within_s: float, *, late: bool) -> Verdict | None:
        """The decision that the votes so far allow, ``None`` while some are missing and there is time."""
        votes = {rank: read_object(self._vote(phase, rank)) for rank in range(self._ranks)}
        missing = [rank for rank, vote in votes.items() if vote is None]
        if missing and not late:
            return None
        against = {rank: str(vote["why"]) for rank, vote in votes.items() if vote is not None and vote["why"]}
        against |= dict.fromkeys(missing, f"no answer within {within_s:g} s")
        if len(against) == self._ranks and len(set(against.values())) == 1:
            return Verdict(go=False, why=next(iter(against.values())))
        if not against and len({vote["of"] for vote in votes.values() if vote is not None}) > 1:
            return Verdict(go=False, why="the ranks see different files")
        return Verdict(go=not against, why="; ".join(f"rank {rank}: {why}" for rank, why in sorted(against.items())))


def _read(decision: Path) -> Verdict | None:
    found = read_object(decision)
    return None if found is None else Verdict(go=bool(found["go"]), why=str(found["why"]))


def _last_word(decision: Path) -> Verdict:
    end = time.monotonic() + LAST_WORD_S
    while time.monotonic() < end:
        if (verdict := _read(decision)) is not None:
            return verdict
        time.sleep(POLL_S)
    raise TimeoutError(f"{decision.name} vanished")
