"""The agent's own log: one file, 0600, rotated; what a library prints on standard error lands in it, too."""

from __future__ import annotations

import logging
import logging.handlers
import os
from pathlib import Path

from console.errors import ConsoleError

MOST_BYTES = 1 << 20
KEPT = 3


class _Handler(logging.handlers.RotatingFileHandler):
    """Rotates, and takes the standard streams along to the new file."""

    def _open(self) -> object:  # type: ignore[override]
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        return os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace")


def set_up(path: Path, *, detached: bool) -> None:
    """Log into the file when detached, to standard error in the foreground.

    Raises:
        ConsoleError: the file cannot be written.
    """
    try:
        to_file = _Handler(path, maxBytes=MOST_BYTES, backupCount=KEPT) if detached else None
    except OSError as error:
        raise ConsoleError(
            f"the agent's log {path} cannot be written",
            why=error.strerror or str(error),
            todo="free the disk or make the folder writable; the engine is not touched",
        ) from error
    handler = to_file or logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
