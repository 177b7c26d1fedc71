"""Pages of a log by byte offset: whole lines, fit to be shown."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from console.engine.logtext import sanitize
from console.errors import ConsoleError, ExitCode

MOST_LINES = 2000
CHUNK_BYTES = 256 * 1024
LINE_CHARS = 4096
"""A line longer than this is cut for showing."""
UNFINISHED_S = 2.0
"""A last line without an end is held back for so long: its writer may be in the middle of it."""


def page(
    path: Path, *, before: int | None = None, after: int | None = None, limit: int = 200, secrets: Iterable[str] = ()
) -> dict[str, Any]:
    """Whole lines before or after a byte offset; the newest ones without either.

    Args:
        path: the log.
        before: lines that end at or before this offset.
        after: lines that begin at or after this offset.
        limit: how many lines at most.
        secrets: values to mask.

    Returns:
        ``path``, ``size``, ``start``, ``end`` (offsets of the page) and ``lines``.

    Raises:
        ConsoleError: the file cannot be read.
    """
    limit = max(1, min(limit, MOST_LINES))
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            size = found.st_size
            finished = time.time() - found.st_mtime > UNFINISHED_S
            if after is not None:
                start = max(0, min(after, size))
                file.seek(start)
                raw = file.read(CHUNK_BYTES)
                lines = _finished(raw, finished=finished and start + len(raw) >= size)[:limit]
                end = start + sum(map(len, lines))
            else:
                end = size if before is None else max(0, min(before, size))
                first = max(0, end - CHUNK_BYTES)
                file.seek(first)
                raw = file.read(end - first)
                lines = _finished(raw, finished=finished or end < size)
                end = first + sum(map(len, lines))
                if first > 0 and len(lines) > 1:
                    lines.pop(0)  # it began before the chunk
                lines = lines[-limit:]
                start = end - sum(map(len, lines))
    except OSError as error:
        raise ConsoleError(
            f"the log {path} cannot be read", why=error.strerror or str(error), code=ExitCode.UNREACHABLE
        ) from error
    shown = [sanitize(_text(line), secrets, limit_chars=LINE_CHARS) for line in lines]
    return {"path": str(path), "size": size, "start": start, "end": end, "lines": shown}


def _text(line: bytes) -> str:
    """A line as a terminal would leave it: what follows the last carriage return."""
    return line.rstrip(b"\r\n").rpartition(b"\r")[2].decode("utf-8", errors="replace")


def _finished(raw: bytes, *, finished: bool) -> list[bytes]:
    """The lines of a chunk; its last one, when it has no end, only if it will not grow or stands alone in a full chunk."""
    pieces = raw.split(b"\n")
    lines = [piece + b"\n" for piece in pieces[:-1]]
    rest = pieces[-1]
    if rest and (finished or (not lines and len(raw) >= CHUNK_BYTES)):
        lines.append(rest)
    return lines
