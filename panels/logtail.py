"""The last lines of the engine's log, word for word."""

from __future__ import annotations

import re
from typing import ClassVar

from console.rig import Snapshot
from panels.rows import EMPTY, Row, crop_middle
from panels.scroll import ScrollingPanel
from panels.text import clean, nothing

_PREFIX = re.compile(r"^\[\d{4}-\d\d-\d\d (\d\d:\d\d:\d\d)((?: [A-Z]{2,4}\d+)*)\] ")
"""SGLang's prefix: ``[2026-12-01 10:00:00 TP0] ``; the day is cut, a tail has no room for it."""
_BAD = re.compile(r"\b(ERROR|CRITICAL|FATAL|Traceback|Exception|[A-Za-z]*Error)\b|out of memory")
_WARN = re.compile(r"\b(WARN|WARNING|[A-Za-z]*Warning)\b|\bdeprecated\b")


class LogTail(ScrollingPanel):
    """The newest lines at the bottom."""

    TITLE: ClassVar[str] = "Log"
    FROM_END: ClassVar[bool] = True

    def body(self, snapshot: Snapshot, cells: int, rows: int) -> list[Row]:
        """The lines in sight; long ones are cut, the log screen shows them whole."""
        if not snapshot.log_tail:
            why = "the engine was started elsewhere: its log is not here" if snapshot.engine.attached else "no log yet"
            self.window([], 0)
            return [nothing("", why)]
        shown = self.window([((raw, "text"),) for raw in snapshot.log_tail], rows)
        return [log_row(row[0][0], cells) for row in shown]

    def status(self, snapshot: Snapshot) -> Row:
        """The file."""
        path = snapshot.engine.log_path
        return ((crop_middle(clean(path), max(8, self.size.width // 2)), "dim"),) if path else EMPTY


def log_row(raw: str, cells: int) -> Row:
    """One line of a log: time and rank dim, the text in the role of its level."""
    raw = raw[: cells * 4 + 40]  # a line may be megabytes; no more than this can be seen
    match = _PREFIX.match(raw)
    text = clean(raw[match.end() :] if match else raw)
    role = "bad" if _BAD.search(text) else "warn" if _WARN.search(text) else "text"
    if match is None:
        return ((text, role),)
    return ((match.group(1) + match.group(2) + " ", "dim"), (text, role))
