"""A window on a log of any size: a bounded run of pages, moved by byte offsets, with only the wanted lines kept.

Pure: no Textual, no clock, no thread. :class:`~console.screens.log.LogScreen` fetches pages in a worker and hands them in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

KEPT_LINES = 6000
"""Lines in memory at most (one page more while it is being added)."""


@dataclass(frozen=True, slots=True)
class LogPage:
    """Whole lines of the log between two byte offsets, masked, without control characters."""

    path: str
    """The file; another one after a restart of the engine."""
    size: int
    """Bytes in the file when it was read."""
    start: int
    """Offset of the first line's first byte."""
    end: int
    """Offset behind the last line."""
    lines: Sequence[str]

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Self:
        """The page in an answer of ``GET /v1/log``."""
        return cls(answer["path"], answer["size"], answer["start"], answer["end"], answer["lines"])


@dataclass(frozen=True, slots=True)
class Span:
    """The wanted lines between two byte offsets; none may be wanted."""

    start: int
    end: int
    lines: tuple[str, ...]


class Logbook:
    """Lines in sight and around it.

    Args:
        needle: only lines that hold this text, upper and lower case alike; empty: all lines.
    """

    def __init__(self, needle: str = "") -> None:
        self.needle = needle
        self.path = ""
        self.size_bytes = 0
        self.skipped_bytes = 0
        """Bytes passed over while following a log that is written faster than it can be read."""
        self._spans: deque[Span] = deque()

    # -------------------------------------------------------------------------------------------- what is there

    @property
    def start(self) -> int:
        """Offset before the first line."""
        return self._spans[0].start if self._spans else 0

    @property
    def end(self) -> int:
        """Offset behind the last line."""
        return self._spans[-1].end if self._spans else 0

    @property
    def empty(self) -> bool:
        """Nothing was read yet."""
        return not self._spans

    @property
    def count(self) -> int:
        """Lines in memory."""
        return sum(len(span.lines) for span in self._spans)

    def lines(self) -> list[str]:
        """The lines, oldest first."""
        return [line for span in self._spans for line in span.lines]

    def wanted(self, line: str) -> bool:
        """Whether a line holds the needle."""
        return not self.needle or self.needle.casefold() in line.casefold()

    # ----------------------------------------------------------------------------------------------- moving it

    def begin(self, page: LogPage) -> None:
        """Forget everything and start with this page."""
        self._spans.clear()
        self._take(page)
        self._spans.append(self._span(page))

    def append(self, page: LogPage) -> int:
        """Add the page that follows :attr:`end`; how many lines went at the front.

        A page of another file, or of one that has been cut, starts anew; so does one that does not follow, which happens when
        bytes were skipped.
        """
        if self.empty or page.path != self.path or page.size < self.end or page.start != self.end:
            gap = page.start - self.end if page.path == self.path and page.start > self.end and not self.empty else 0
            dropped = self.count
            self.begin(page)
            self.skipped_bytes += gap
            return dropped
        self._take(page)
        if page.end > page.start:
            self._spans.append(self._span(page))
            self._merge_last()
        return self._trim_front()

    def prepend(self, page: LogPage) -> int:
        """Add the page that ends at :attr:`start`; how many wanted lines it brought."""
        if self.empty or page.path != self.path or page.end != self.start:
            return 0
        self._take(page)
        span = self._span(page)
        first = self._spans[0]
        if not first.lines or not span.lines:
            self._spans[0] = Span(span.start, first.end, (*span.lines, *first.lines))
        else:
            self._spans.appendleft(span)
        self._trim_back()
        return len(span.lines)

    def _take(self, page: LogPage) -> None:
        if page.path != self.path:
            self.skipped_bytes = 0
        self.path, self.size_bytes = page.path, page.size

    def _span(self, page: LogPage) -> Span:
        return Span(page.start, page.end, tuple(wanted_lines(page.lines, self.needle)))

    def _merge_last(self) -> None:
        """Keep the number of spans small: spans without wanted lines and short ones join their neighbour."""
        if len(self._spans) < 2:
            return
        last, before = self._spans[-1], self._spans[-2]
        if not last.lines or not before.lines or len(before.lines) + len(last.lines) <= 500:
            self._spans.pop()
            self._spans[-1] = Span(before.start, last.end, before.lines + last.lines)

    def _trim_front(self) -> int:
        dropped = 0
        while len(self._spans) > 1 and self.count - len(self._spans[0].lines) >= KEPT_LINES:
            dropped += len(self._spans.popleft().lines)
        return dropped

    def _trim_back(self) -> None:
        while len(self._spans) > 1 and self.count - len(self._spans[-1].lines) >= KEPT_LINES:
            self._spans.pop()


def wanted_lines(lines: Sequence[str], needle: str) -> list[str]:
    """The lines that hold the needle, upper and lower case alike."""
    if not needle:
        return list(lines)
    wanted = needle.casefold()
    return [line for line in lines if wanted in line.casefold()]
