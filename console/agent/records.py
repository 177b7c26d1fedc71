"""What each drafter did on this rig, kept beside the journal: measured whenever one was watched under load."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import msgspec

from console.agent import files
from console.errors import ConsoleError

FILE = "drafter-records.json"
KEPT = 20
"""Records of one drafter; its best is never dropped."""


class Record(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One drafter over one stretch under load."""

    at_s: float
    accept_len: float
    tok_s: float | None = None
    """Decode speed of one stream."""
    depth: float | None = None
    running: float | None = None
    """Requests at a time."""
    seconds: float = 0.0
    fingerprint: str = ""
    """Of the rig it was measured on."""
    outcome: str = ""
    """served, kept or rolled back."""
    profile: str = ""


class Summary(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a list shows of a drafter."""

    best: Record
    last: Record
    count: int


class Records:
    """The records of one rig. Its methods block; safe to use from several threads.

    Args:
        folder: of the rig.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._lock = threading.Lock()

    def read(self) -> dict[str, tuple[Record, ...]]:
        """By drafter as profiles and operators name it, oldest first; nothing when there is no file that can be read."""
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, tuple[Record, ...]])
        return {}

    def add(self, drafter: str, record: Record) -> None:
        """Keep one.

        Raises:
            ConsoleError: the folder cannot be written.
        """
        with self._lock:
            known = self.read()
            known[drafter] = _fewer((*known.get(drafter, ()), record))
            try:
                files.replace_text(self._path, msgspec.json.format(msgspec.json.encode(known), indent=1))
            except OSError as error:
                raise ConsoleError(f"cannot write {self._path}", why=error.strerror or str(error)) from error


def summary(records: tuple[Record, ...]) -> Summary | None:
    """The best by speed (by accept_len where none was measured) and the last."""
    return Summary(max(records, key=_merit), records[-1], len(records)) if records else None


def _merit(record: Record) -> tuple[float, float]:
    return (record.tok_s or 0.0, record.accept_len)


def _fewer(records: tuple[Record, ...]) -> tuple[Record, ...]:
    if len(records) <= KEPT:
        return records
    best = max(records, key=_merit)
    newest = records[-KEPT:]
    return newest if best in newest else (best, *newest[1:])
