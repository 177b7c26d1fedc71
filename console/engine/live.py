"""Changes inside the running engine: a command to the probe on every rank, and the answers of all of them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec

from console import rig
from console.engine.feed import FeedReader, status
from console.engine.http import EngineUnreachable
from console.engine.logtext import sanitize
from console.errors import ConsoleError

KEY = "spec_console_cmd"
"""SGLang hands numbers only; the payload stands in a file of that number."""
POLL_S = 0.01
QUICK_S = 15.0
"""For every rank's answer to a change that takes milliseconds."""
SWAP_S = 150.0
READ_S = 1800.0
"""A drafter may come from a slow disk; the engine serves meanwhile."""
SILENT_S = 5.0
ANSWER_LIMIT_BYTES = 64 * 1024


class Client(Protocol):
    """As much of the engine's HTTP client as is used here."""

    async def set_internal_state(self, values: dict[str, float], *, deadline_s: float = ...) -> list[bool]:
        """Hand numbers to every scheduler."""


class Ack(msgspec.Struct, frozen=True):
    """One rank's answer."""

    ok: bool
    message: str = ""
    seconds: dict[str, float] = {}
    checksum: str = ""


class Answer(msgspec.Struct, frozen=True):
    """What all ranks said."""

    message: str
    seconds: dict[str, float]
    """By phase, of the slowest rank."""
    checksums: dict[int, str]
    """By rank.

    Each is over the rank's own part of the weights, so ranks differ from each other, not from themselves.
    """
    round_trip_s: float
    """From the command to the last answer."""


class LiveControl:
    """Live depth and live swap.

    Args:
        client: of the engine.
        probe_dir: the folder shared with the ranks.
        tp: ranks that must answer.
    """

    def __init__(self, client: Client, probe_dir: Path, tp: int) -> None:
        self._client = client
        self._folder = probe_dir
        self._tp = tp
        self._feed = FeedReader(probe_dir, sockets=False)
        self._number = 0
        self._lock = asyncio.Lock()
        self.last: Answer | None = None
        """Figures of the newest change that was made."""

    # ------------------------------------------------------------------------------------------ what is possible

    def capabilities(self) -> rig.ProbeStatus:
        """What is possible now, and why not what is not."""
        messages = [message for message in self._feed.poll() if time.time() - message.at_s < SILENT_S]
        found = status(messages)
        if not messages and self._feed.messages:
            why = "the probe is silent"
            return rig.ProbeStatus(why=why, depth_why=why, swap_why=why)
        if messages and len(messages) != self._tp:
            why = f"the probe answers on {len(messages)} of {self._tp} ranks"
            return msgspec.structs.replace(found, depth_live=False, depth_why=why, swap_live=False, swap_why=why)
        return found

    @property
    def candidate_steps(self) -> tuple[int, ...]:
        """Depths with prebuilt state, by the newest feed."""
        messages = self._feed.poll()
        return messages[0].capabilities.candidate_steps if messages else ()

    def depth(self) -> tuple[int | None, int | None]:
        """Depth in use and depth pinned by the console, by the newest feed; ``None``: not known, not pinned."""
        messages = self._feed.poll()
        return (messages[0].depth, messages[0].pinned) if messages else (None, None)

    # ------------------------------------------------------------------------------------------ changes

    async def ping(self) -> Answer:
        """Ask every rank for an answer.

        Raises:
            ConsoleError: one did not give any.
        """
        return await self._command({"op": "ping"}, "ping", QUICK_S)

    async def set_depth(self, depth: int | None) -> str:
        """Pin a depth on all ranks; ``None`` gives it back to SGLang's own policy.

        Returns:
            What the engine answered.

        Raises:
            ConsoleError: it refused, or did not answer.
        """
        what = "give depth back to SGLang" if depth is None else f"set depth {depth}"
        self.last = await self._command({"op": "depth", "depth": depth}, what, QUICK_S)
        return self.last.message

    async def swap(self, path: str, *, resident: int | None = None, resident_bytes: int | None = None) -> str:
        """Exchange the drafter's weights on every rank, or on none.

        The ranks read the files while they serve; only the exchange itself stops them. A drafter that is resident
        needs no reading.

        Args:
            path: folder of the drafter.
            resident: drafters kept in memory beside it, so that going back is quick; ``None``: the one before it.
            resident_bytes: limit of what they may take on each rank.

        Returns:
            What the engine answered.

        Raises:
            ConsoleError: it refused, or a rank failed; the former drafter is in place on all ranks.
        """
        folder = _folder(path)
        kept = self._feed.poll()
        seconds: dict[str, float] = {}
        if not kept or any(folder not in message.drafter.resident for message in kept):
            try:
                read = await self._command({"op": "stage", "path": folder}, f"read drafter {path}", READ_S)
            except ConsoleError:
                with suppress(ConsoleError):  # the ranks that have read it let go of the memory
                    await self._command({"op": "unstage"}, "let go of a drafter", QUICK_S)
                raise
            seconds = {f"stage {phase}": value for phase, value in read.seconds.items()}
        limits = {"resident": resident, "resident_bytes": resident_bytes}
        options = {name: limit for name, limit in limits.items() if limit is not None}
        done = await self._command({"op": "swap", "path": folder, "options": options}, f"swap to {path}", SWAP_S)
        self.last = msgspec.structs.replace(done, seconds={**seconds, **done.seconds})
        return f"{done.message}, checksum {' '.join(checksum for _, checksum in sorted(done.checksums.items()))}"

    async def fault(self, **payload: Any) -> Answer:
        """Tests only: the engine refuses it unless it was started for tests."""
        return await self._command({"op": "fault", **payload}, "set a fault", QUICK_S)

    # ------------------------------------------------------------------------------------------ one command

    async def _command(self, payload: Mapping[str, Any], what: str, deadline_s: float) -> Answer:
        """Hand one command to all ranks and wait for all their answers.

        Raises:
            ConsoleError: a rank refused or is silent.
        """
        async with self._lock:
            number = self._next_number()
            began = time.monotonic()
            try:
                self._write(number, payload)
                accepted = await self._post(number, deadline_s)
                acks = await self._acks(number, deadline_s - (time.monotonic() - began), all_refused=not any(accepted))
            finally:
                self._clean(number)
        silent = [rank for rank in range(self._tp) if rank not in acks]
        refused = {rank: sanitize(ack.message) for rank, ack in sorted(acks.items()) if not ack.ok}
        if refused:
            raise ConsoleError(f"cannot {what}", why=_reasons(refused, self._tp))
        if silent:
            who = "no rank has answered"
            if len(silent) < self._tp:
                who = f"rank {', '.join(map(str, silent))} has not answered"
            raise ConsoleError(f"cannot {what}", why=who, todo="the engine's log says what became of the probe")
        phases = dict.fromkeys(phase for ack in acks.values() for phase in ack.seconds)
        return Answer(
            message=sanitize(acks[0].message),
            seconds={phase: max(ack.seconds.get(phase, 0.0) for ack in acks.values()) for phase in phases},
            checksums={rank: ack.checksum for rank, ack in sorted(acks.items())},
            round_trip_s=time.monotonic() - began,
        )

    async def _post(self, number: int, deadline_s: float) -> list[bool]:
        """Hand the number over; once more when the connection broke, since the ranks execute a number only once.

        A connection that was idle may be closed by the server at the moment it is used again.
        """
        try:
            return await self._client.set_internal_state({KEY: number}, deadline_s=deadline_s)
        except EngineUnreachable:
            return await self._client.set_internal_state({KEY: number}, deadline_s=deadline_s)

    def _next_number(self) -> int:
        """Later than any before, also those of an earlier agent."""
        self._number = max(self._number + 1, int(time.time() * 1000))
        return self._number

    def _write(self, number: int, payload: Mapping[str, Any]) -> None:
        temporary = self._folder / f".cmd-{number}.json"
        try:
            temporary.write_text(json.dumps(payload))
            temporary.replace(self._folder / f"cmd-{number}.json")
        except OSError as error:
            raise ConsoleError(
                f"cannot write into {self._folder}",
                why=error.strerror or str(error),
                todo="free space, or start the engine with its probe",
            ) from error

    async def _acks(self, number: int, seconds: float, *, all_refused: bool) -> dict[int, Ack]:
        """Every rank's answer, or those that came in time.

        An engine without the probe refuses at once and answers in no file; its ranks are not waited for.
        """
        end = time.monotonic() + (min(seconds, 1.0) if all_refused else max(seconds, 0.0))
        acks: dict[int, Ack] = {}
        while len(acks) < self._tp:
            for rank in range(self._tp):
                if rank not in acks and (ack := self._ack(number, rank)) is not None:
                    acks[rank] = ack
            if time.monotonic() > end:
                break
            await asyncio.sleep(POLL_S)
        return acks

    def _ack(self, number: int, rank: int) -> Ack | None:
        path = self._folder / f"ack-{number}-{rank}.json"
        try:
            with path.open("rb") as file:
                return msgspec.json.decode(file.read(ANSWER_LIMIT_BYTES), type=Ack)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def _clean(self, number: int) -> None:
        """Take the command's files away; what a slow rank leaves later, the probe sweeps."""
        for pattern in ("cmd-{}.json", ".cmd-{}.json", "ack-{}-*.json", "vote-{}-*.json", "decision-{}-*.json"):
            for path in self._folder.glob(pattern.format(number)):
                with suppress(OSError):
                    path.unlink()


def _folder(path: str) -> str:
    """The name under which the ranks know a folder; what is none is left to them to refuse."""
    return str(Path(path).resolve()) if Path(path).is_dir() else path


def _reasons(refused: Mapping[int, str], ranks: int) -> str:
    """One reason when all ranks have the same, else each with its rank."""
    if len(refused) == ranks and len(set(refused.values())) == 1:
        return next(iter(refused.values()))
    return "; ".join(f"rank {rank}: {why}" for rank, why in refused.items())
