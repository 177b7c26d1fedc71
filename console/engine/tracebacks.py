"""Python tracebacks in a log: whose they are, whether they were fatal, what the exception said, through which frames."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field

BEGIN = "Traceback (most recent call last):"
FATAL_HEADERS = (
    "Scheduler hit an exception",
    "DetokenizerManager hit an exception",
    "TokenizerManager hit an exception",
    "DataParallelController hit an exception",
    "Initialization failed. warmup error",
    "hit an exception: Traceback",
)
"""What SGLang writes before the traceback of a process that is about to die."""

_CHAIN = ("During handling of the above exception", "The above exception was the direct cause")
_FRAME = re.compile(r'\s+File "(?P<file>[^"]{1,400})", line (?P<line>\d+)(?:, in (?P<function>.{1,200}))?')
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]{0,200}(?::(?:\s|$)|$)")
_PROCESS = re.compile(r"Process \S+:$")
FRAMES_KEPT = 80
MESSAGES_KEPT = 20


@dataclass(slots=True)
class Frame:
    """One frame: the file as the log names it, its line and function."""

    file: str
    line: int
    function: str

    @property
    def place(self) -> str:
        """Where, short: the path below the package, line, function."""
        path = self.file
        for root in ("/sglang/", "/site-packages/", "/dist-packages/", "/lib/"):
            if root in path:
                path = path[path.rindex(root) + 1 :]
                break
        return f"{path}:{self.line} ({self.function})" if self.function else f"{path}:{self.line}"


@dataclass(slots=True)
class Traceback:
    """A traceback, with the exceptions it was chained to; grows while its lines arrive."""

    rank: str
    header: str
    at_s: float | None
    phase: str
    uncaught: bool = False
    """It came through a module's top level, so the process ended of it."""
    frames: deque[Frame] = field(default_factory=lambda: deque(maxlen=FRAMES_KEPT))
    messages: list[str] = field(default_factory=list)
    """The exceptions' lines, oldest first; the last is the one that ended it."""

    @property
    def fatal(self) -> bool:
        """Whether the process that wrote it cannot have gone on."""
        return self.uncaught or any(header in self.header for header in FATAL_HEADERS)

    def passes(self, *names: str) -> bool:
        """Whether a frame's file or function holds one of the names."""
        return any(name in frame.file or name in frame.function for frame in self.frames for name in names)


class TracebackReader:
    """Follows tracebacks through a log, one per rank that tags its lines and one for the lines without a tag."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._previous = ""

    def begin(self, text: str, *, rank: str, lane: str, at_s: float | None, phase: str) -> Traceback:
        """A line with the word Traceback: a new one, or the next link of the chain that is open in this lane.

        Args:
            text: the line without its prefix.
            rank: whose it is.
            lane: what its following lines will be tagged with: torch's rank tag or nothing.
            at_s: when.
            phase: the start-up phase that was running.
        """
        header = text[: text.index(BEGIN)].strip() or (self._previous if _PROCESS.match(self._previous) else "")
        current = self._open.get(lane)
        if current is not None and current.chained and not header:
            current.chained = current.closed = False
            current.first_frame = True
            return current.traceback
        traceback = Traceback(rank, header, at_s, phase, uncaught=bool(_PROCESS.match(header)))
        self._open[lane] = _Open(traceback)
        return traceback

    def feed(self, text: str, lane: str) -> tuple[bool, Traceback | None]:
        """An unprefixed line.

        Returns:
            Whether it belongs to a traceback; and the traceback when the line is its exception's.
        """
        self._previous = text
        current = self._open.get(lane)
        if current is None:
            return False, None
        if not text.strip():
            return True, None
        if text[0] in " \t":
            current.frame(text)
            return True, None
        if text.startswith(_CHAIN):
            current.chained = True
            return True, None
        if not current.closed and current.traceback.frames and _EXCEPTION.match(text):
            current.closed = True
            if len(current.traceback.messages) < MESSAGES_KEPT:
                current.traceback.messages.append(text[:2000])
            return True, current.traceback
        if current.closed:
            self._open.pop(lane)
            return False, None
        return True, None

    def end(self, lane: str = "") -> None:
        """A prefixed line came: what was open in this lane is over."""
        self._open.pop(lane, None)


class _Open:
    """A traceback that is being read."""

    __slots__ = ("chained", "closed", "first_frame", "traceback")

    def __init__(self, traceback: Traceback) -> None:
        self.traceback = traceback
        self.chained = False
        self.closed = False
        self.first_frame = True

    def frame(self, text: str) -> None:
        found = _FRAME.match(text)
        if found is None:
            return
        frame = Frame(found["file"], int(found["line"][:9]), (found["function"] or "").strip())
        if self.first_frame:
            self.first_frame = False
            if frame.file in {"<frozen runpy>", "<string>"} or frame.function == "<module>":
                self.traceback.uncaught = True
        self.traceback.frames.append(frame)
