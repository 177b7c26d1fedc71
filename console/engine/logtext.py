"""From the bytes of a log to clean lines: any encoding, carriage returns, colours, lines of any length, prefixes of ranks."""

from __future__ import annotations

import codecs
import re
import time
from collections.abc import Iterable
from typing import NamedTuple

from console.engine.secrets import mask_text

LINE_LIMIT_CHARS = 64 * 1024
"""More of a line is thrown away: no line of SGLang's that matters is longer, and a 100 MB line must not cost 100 MB."""

_ANSI = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]"
)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_PREFIX = re.compile(
    r"\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?P<ms>[.,]\d{3})?(?P<rank>(?: (?:DP|PP|ATTN_CP|MOE_DP|TP|EP)\d+)*)\] ?"
)
_TORCH_RANK = re.compile(r"\[rank(?P<rank>\d{1,5})\]:\s?")
PREFIX_SEARCH_CHARS = 160
"""Container runtimes and journald put their own text in front; SGLang's prefix is looked for this far."""


class Line(NamedTuple):
    """A line of a log, its prefix taken apart."""

    text: str
    """What follows the prefix; the whole line when there is none."""
    at_s: float | None
    """Unix seconds, the log's wall clock read as this machine's local time; ``None`` without a prefix."""
    rank: str
    """As the log names it: ``TP3``, ``DP0 TP1``; empty for the launcher and a single rank."""
    prefixed: bool


def strip_ansi(text: str) -> str:
    """Text without terminal escapes (colours, titles, cursor movements)."""
    return _ANSI.sub("", text) if "\x1b" in text or "\x9b" in text else text


def sanitize(line: str, values: Iterable[str] = (), *, limit_chars: int = 4096) -> str:
    """A line that may be shown: no escapes, no control or direction characters, secrets masked, bounded length."""
    if len(line) > limit_chars:
        line = line[:limit_chars] + "..."
    line = _CONTROL.sub(" ", strip_ansi(line).replace("\t", "    "))
    return mask_text(line, values).rstrip()


class LineSplitter:
    """Cuts what arrives in pieces into lines. A carriage return ends a line too: progress bars rewrite theirs with it."""

    def __init__(self, limit_chars: int = LINE_LIMIT_CHARS) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest: list[str] = []
        self._rest_chars = 0
        self._limit_chars = limit_chars

    def feed(self, data: bytes | str) -> list[str]:
        """The lines that are whole now, without their ends; empty ones are left out."""
        text = data if isinstance(data, str) else self._decoder.decode(data)
        if "\r" in text:
            text = text.replace("\r", "\n")
        first, newline, others = text.partition("\n")
        self._keep(first)
        if not newline:
            return []
        lines = others.split("\n")
        rest = lines.pop()
        head = "".join(self._rest)
        self._rest, self._rest_chars = [], 0
        self._keep(rest)
        limit = self._limit_chars
        found = [line if len(line) <= limit else line[:limit] for line in lines if line]
        return [head, *found] if head else found

    def close(self) -> list[str]:
        """The unfinished last line, if there is one."""
        self._keep(self._decoder.decode(b"", final=True))
        head = "".join(self._rest)
        self._rest, self._rest_chars = [], 0
        return [head] if head else []

    @property
    def pending(self) -> str:
        """What is there of the line that has not ended yet."""
        return "".join(self._rest)

    def _keep(self, piece: str) -> None:
        room = self._limit_chars - self._rest_chars
        if piece and room > 0:
            piece = piece[:room]
            self._rest.append(piece)
            self._rest_chars += len(piece)


class PrefixReader:
    """Takes SGLang's prefix off a line. Keeps the last time stamp, which most lines share."""

    def __init__(self) -> None:
        self._time = ""
        self._at_s: float | None = None

    def read(self, line: str) -> Line:
        """The line's parts; a line without a prefix comes back whole."""
        line = strip_ansi(line)
        found = _PREFIX.match(line)
        if found is None:
            torch = _TORCH_RANK.match(line)
            if torch is not None:
                return Line(line[torch.end() :], None, f"TP{torch['rank']}", prefixed=False)
            if "[20" not in line[:PREFIX_SEARCH_CHARS]:
                return Line(line, None, "", prefixed=False)
            found = _PREFIX.search(line, 0, PREFIX_SEARCH_CHARS)
            if found is None:
                return Line(line, None, "", prefixed=False)
        if found["time"] != self._time:
            self._time = found["time"]
            self._at_s = _unix_s(self._time)
        at_s = self._at_s
        if at_s is not None and found["ms"]:
            at_s += int(found["ms"][1:]) / 1000
        return Line(line[found.end() :], at_s, found["rank"].strip(), prefixed=True)


def _unix_s(text: str) -> float | None:
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%d %H:%M:%S"))
    except (ValueError, OverflowError):
        return None
