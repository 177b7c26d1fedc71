"""Follows the engine's log file as it grows: its state, its last lines, its decode batches.

The file may be truncated, replaced, flooded or missing; what follows it never blocks the agent for long and never raises.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path

from console.engine.log import Kind, LogEvent, LogReader, LogState
from console.engine.logtext import sanitize

log = logging.getLogger(__name__)

POLL_PERIOD_S = 0.1
PIECE_BYTES = 64 * 1024
MOST_BEHIND_BYTES = 16 << 20
"""Farther behind than this, lines are skipped: the newest matter."""
CATCH_UP_BYTES = 4 << 20
"""Of a log that an earlier agent followed, this much of its head (the start) and of its end is read."""
TAIL_BYTES = 64 * 1024
TAIL_LINES = 200
BEFORE_BYTES = 64
CUT = "the log was cut or replaced while it was followed"


class LogTail:
    """Follows one file.

    Args:
        path: the log; need not exist yet.
        secrets: values masked in everything shown.
        on_event: called with each line that matters.
    """

    def __init__(
        self, path: Path, *, secrets: frozenset[str] = frozenset(), on_event: Callable[[LogEvent], None] | None = None
    ) -> None:
        self.path = path
        self.note = ""
        """Why lines are missing; empty while none is."""
        self._secrets = secrets
        self._on_event = on_event
        self._silent = False
        self._reader = LogReader(secrets)
        self._offset = 0
        self._before = b""
        """The last bytes before the offset: a file that was cut and has grown past it since does not hold them there."""
        self._inode: int | None = None
        self._recent = bytearray()
        self._shown: tuple[str, ...] | None = ()
        self._task: asyncio.Task[None] | None = None

    @property
    def state(self) -> LogState:
        """What the lines read so far tell."""
        return self._reader.state

    def tail(self, lines: int = TAIL_LINES) -> tuple[str, ...]:
        """The last lines, fit to be shown."""
        if self._shown is None:
            text = self._recent.decode("utf-8", errors="replace").replace("\r", "\n")
            found = [line for line in text.split("\n")[-4 * TAIL_LINES :] if line.strip()]
            self._shown = tuple(sanitize(line, self._secrets) for line in found[-TAIL_LINES:])
        return self._shown[-lines:] if lines > 0 else ()

    def start(self) -> None:
        """Follow the file from its beginning."""
        self._task = asyncio.create_task(self._follow(), name="engine log")

    async def catch_up(self) -> None:
        """Read what an earlier agent has read: the start and the end of it, silently but for the newest batch."""
        self._silent = True
        try:
            size = self._size()
            await self._read_until(min(size, CATCH_UP_BYTES))
            if size - self._offset > CATCH_UP_BYTES:
                self._skip_to(size - CATCH_UP_BYTES)
            await self._read_until(size)
        finally:
            self._silent = False
        if (batch := self.state.last_decode) is not None:
            self._notify(LogEvent(Kind.DECODE, "", batch.at_s, batch.rank, batch))

    async def drain(self) -> None:
        """Read to the present end, last line included: after the engine has ended."""
        await self.stop()
        await self._read_until(self._size())
        for event in self._reader.close():
            self._notify(event)

    async def stop(self) -> None:
        """Follow no longer."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # ------------------------------------------------------------------------------------------ reading

    async def _follow(self) -> None:
        while True:
            try:
                await self._read_until(self._size())
            except Exception:
                log.exception("following %s failed", self.path)
            await asyncio.sleep(POLL_PERIOD_S)

    def _size(self) -> int:
        """Bytes in the file; starts over when it is another file or has shrunk."""
        try:
            found = self.path.stat()
        except OSError as error:
            if self._inode is not None:
                self.note = f"{self.path.name} is gone: {error.strerror or error}"
                self._inode = None  # a successor may get the same inode
                self._start_over()
            return 0
        if self._inode is not None and (found.st_ino != self._inode or found.st_size < self._offset):
            self.note = CUT
            self._start_over()
        self._inode = found.st_ino
        return found.st_size

    async def _read_until(self, end: int) -> None:
        if end - self._offset > MOST_BEHIND_BYTES:
            self._skip_to(end - MOST_BEHIND_BYTES // 2)
        if self._offset >= end:
            return
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            self.note = f"{self.path.name} cannot be read: {error.strerror or error}"
            return
        try:
            if (
                self._before
                and os.pread(descriptor, len(self._before), self._offset - len(self._before)) != self._before
            ):
                self.note = CUT
                self._start_over()
            while self._offset < end:
                piece = os.pread(descriptor, min(PIECE_BYTES, end - self._offset), self._offset)
                if not piece:
                    break
                self._offset += len(piece)
                self._before = (self._before + piece[-BEFORE_BYTES:])[-BEFORE_BYTES:]
                self._take(piece)
                await asyncio.sleep(0)
        except OSError as error:
            self.note = f"{self.path.name} cannot be read: {error.strerror or error}"
        finally:
            os.close(descriptor)

    def _start_over(self) -> None:
        self._offset, self._before = 0, b""

    def _skip_to(self, offset: int) -> None:
        self.note = f"{offset - self._offset} bytes of the log were skipped to keep up"
        self._offset, self._before = offset, b""
        self._take(b"\n")

    def _take(self, piece: bytes) -> None:
        self._recent += piece
        if len(self._recent) > 2 * TAIL_BYTES:
            del self._recent[:-TAIL_BYTES]
        self._shown = None
        for event in self._reader.feed(piece):
            self._notify(event)

    def _notify(self, event: LogEvent) -> None:
        if self._on_event is not None and not self._silent:
            self._on_event(event)
