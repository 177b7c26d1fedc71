"""The engine's log, read as it grows: what kind of line, what it says, and the state it leaves.

Feed bytes or text in any pieces; :attr:`LogReader.state` holds what is known after them. Nothing raises, whatever comes.
"""

from __future__ import annotations

import enum
import re
from collections import deque
from dataclasses import dataclass, field

from console.engine.batches import DecodeBatch, PrefillBatch, decode_batch, prefill_batch
from console.engine.failures import INCIDENTS_KEPT, NOT_INSTALLED, Incident, failures, is_fatal_line, torch_rank
from console.engine.logtext import Line, LineSplitter, PrefixReader, sanitize
from console.engine.startup import READY, Startup
from console.engine.tracebacks import BEGIN, FATAL_HEADERS, Traceback, TracebackReader
from console.rig import Failure, Phase

WARNINGS_KEPT = 50
SWITCHES_KEPT = 200
_ARGUMENTS = re.compile(
    r"'?\b(model_path|speculative_algorithm|speculative_draft_model_path|speculative_num_steps|speculative_eagle_topk|speculative_num_draft_tokens"
    r"|mem_fraction_static|tp_size|dp_size|max_running_requests|decode_log_interval|port)'?\s*[=:]\s*(?:'([^']*)'|([\w.+-]+))"
)
_SWITCH = re.compile(r"Switch adaptive runtime state: steps (\d+) -> (\d+)")
_POLICY = re.compile(r"AdaptiveSpeculativeParams initialized: steps=(\d+), candidate_steps=\[([\d, ]*)\]")
_ACCESS = re.compile(r'INFO: +[\d.:a-f\[\]]+:\d+ - "(?:GET|POST|PUT) (/[\w/.-]*)')
_ROUTES = (
    *("/generate", "/health", "/v1/", "/model_info", "/get_", "/server_info", "/set_internal_state", "/ping", "/ready"),
    *("/pause_", "/weights_checker", "/weight_version", "/flush_cache", "/metrics"),
)
_SOURCE = re.compile(
    r"^(?:/|  File \"/|  File \"[^\"]*/)[^\"]*/sglang/(?:srt|cli|lang|kernels|launch_server|version)[^\"]*"
)
_WARNING_LINE = re.compile(
    r"\bis deprecated\b|\bdeprecated and will be removed|[Ww]arning|not supported\b|\bDisabl(?:e|ing)\b|\bdisabled\b"
    r"|[Ff]ailed to|[Cc]annot |Fail to|falling back|fall back"
)
_QUIET = (
    "Ignore import error when loading",
    "is deprecated and will be removed in a future version. Please use",
    "ORJSONResponse",
)
_STARTUP_WORDS = {
    "Init",
    "Load",
    "Capture",
    "Built",
    "Engine",
    "Memory",
    "KV",
    "AdaptiveSpeculativeParams",
    "MLA",
    "SWA",
    "Mamba",
}


def _warns(text: str) -> bool:
    """Whether a line, which has no level, is a warning. Words are looked for first: most lines have none, a pattern costs."""
    if not (
        "arning" in text
        or "eprecated" in text
        or "isabl" in text
        or "not supp" in text
        or "ailed" in text
        or "annot" in text
        or "Fail" in text
        or "fall" in text
    ):
        return False
    return _WARNING_LINE.search(text) is not None and not any(words in text for words in _QUIET)


class Kind(enum.StrEnum):
    """Kinds of lines that matter."""

    DECODE = "decode"
    PREFILL = "prefill"
    PHASE = "phase"
    PROGRESS = "progress"
    READY = "ready"
    DEPTH = "depth"
    RETRACT = "retract"
    STOPPING = "stopping"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A line that matters."""

    kind: Kind
    text: str
    """The line, fit to be shown; empty for batches, whose figures stand in ``batch``."""
    at_s: float | None = None
    rank: str = ""
    batch: DecodeBatch | PrefillBatch | None = None


@dataclass(slots=True)
class LogState:
    """What is known after the lines read so far."""

    lines: int = 0
    sglang_lines: int = 0
    access_lines: int = 0
    decode_lines: int = 0
    last_decode: DecodeBatch | None = None
    last_prefill: PrefillBatch | None = None
    facts: dict[str, str] = field(default_factory=dict)
    """What the server said of its arguments: model_path, mem_fraction_static, candidate_steps, ..."""
    depth: int | None = None
    """Last depth told by an argument or a switch."""
    startup: Startup = field(default_factory=Startup)
    switches: deque[tuple[float | None, int, int]] = field(default_factory=lambda: deque(maxlen=SWITCHES_KEPT))
    """Depth changes: when, from, to."""
    warnings: dict[str, int] = field(default_factory=dict)
    """Warning -> how often."""
    incidents: list[Incident] = field(default_factory=list)
    errors: int = 0
    """Exceptions that ended a request or a command, not the server."""
    last_error: Traceback | None = None
    stopping: bool = False
    """SIGTERM has arrived; what dies afterwards was asked to."""
    retracted: int = 0
    simulated: bool = False
    """The log is the simulated engine's."""
    last_at_s: float | None = None
    secrets: frozenset[str] = frozenset()

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Phases of the newest start."""
        return self.startup.phases

    @property
    def ready(self) -> bool:
        """Whether the newest start came to its end."""
        return self.startup.ready

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Why it failed: one entry per cause, the first cause first; empty while nothing fatal was said."""
        facts = dict(self.facts)
        if self.startup.started:
            facts["startup"] = "seen"
        return failures(self.incidents, facts, self.secrets)


class LogReader:
    """Reads a log incrementally.

    Args:
        secrets: values that must not appear in any event or message.
    """

    def __init__(self, secrets: frozenset[str] = frozenset()) -> None:
        self.state = LogState(secrets=secrets)
        self._splitter = LineSplitter()
        self._prefix = PrefixReader()
        self._tracebacks = TracebackReader()
        self._previous_rank = ""

    def feed(self, data: bytes | str) -> list[LogEvent]:
        """More of the log, in any pieces; returns the lines that matter, in order."""
        return self._read(self._splitter.feed(data))

    def close(self) -> list[LogEvent]:
        """The end of the log: its last line may lack an end."""
        return self._read(self._splitter.close())

    def _read(self, lines: list[str]) -> list[LogEvent]:
        events: list[LogEvent] = []
        self.state.lines += len(lines)
        for raw in lines:
            line = self._prefix.read(raw)
            event = self._prefixed(line) if line.prefixed else self._bare(line, raw)
            if event is not None:
                events.append(event)
        return events

    # -------------------------------------------------------------------------------------- lines with SGLang's prefix

    def _prefixed(self, line: Line) -> LogEvent | None:
        state = self.state
        text, at_s, rank, _ = line
        self._tracebacks.end()
        state.last_at_s = at_s
        word = text[: text.find(" ")] if " " in text[:40] else text[:40]
        if word in {"Decode", "Prefill"} and (event := self._batch(text, rank, at_s)) is not None:
            state.sglang_lines += 1
            return event
        if word == "INFO:":
            return self._uvicorn(text, at_s)
        if text.startswith("server_args="):
            self._arguments(text)
        elif text.startswith("SIMULATED"):
            state.simulated = True
        state.startup.clock(at_s)
        if word in _STARTUP_WORDS and (phase := state.startup.read(text, rank, at_s)):
            state.sglang_lines += 1
            return LogEvent(Kind.PHASE, phase, at_s, rank)
        return self._message(text, rank, at_s)

    def _batch(self, text: str, rank: str, at_s: float | None) -> LogEvent | None:
        if decode := decode_batch(text, rank, at_s):
            self.state.last_decode = decode
            self.state.decode_lines += 1
            return LogEvent(Kind.DECODE, "", at_s, rank, decode)
        if prefill := prefill_batch(text, rank, at_s):
            self.state.last_prefill = prefill
            return LogEvent(Kind.PREFILL, "", at_s, rank, prefill)
        return None

    def _uvicorn(self, text: str, at_s: float | None) -> LogEvent | None:
        state = self.state
        access = _ACCESS.match(text)
        if access is not None:
            if access[1].startswith(_ROUTES):
                state.access_lines += 1
            return None
        if "Started server process" in text and state.startup.started:
            state.startup.server_starts(at_s)
            return LogEvent(Kind.PHASE, "warmup", at_s)
        return None

    def _message(self, text: str, rank: str, at_s: float | None) -> LogEvent | None:
        state = self.state
        if BEGIN in text:
            traceback = self._tracebacks.begin(text, rank=rank, lane="", at_s=at_s, phase=state.startup.current)
            if traceback.fatal:
                state.sglang_lines += 1
                return None
        if READY in text:
            state.startup.fired_up(at_s)
            state.sglang_lines += 1
            return LogEvent(Kind.READY, sanitize(text), at_s, rank)
        if "adaptive runtime state" in text or text.startswith("AdaptiveSpeculativeParams"):
            return self._adaptive(text, rank, at_s)
        if text.startswith("SIGTERM received"):
            state.stopping = True
            return LogEvent(Kind.STOPPING, sanitize(text, state.secrets), at_s, rank)
        if is_fatal_line(text):
            return self._fatal(text, rank, at_s)
        if "Retract requests" in text:
            state.retracted += 1
            return LogEvent(Kind.RETRACT, sanitize(text, state.secrets), at_s, rank)
        if _warns(text[:2000]):
            return self._warn(text, rank, at_s)
        return None

    def _adaptive(self, text: str, rank: str, at_s: float | None) -> LogEvent | None:
        state = self.state
        state.sglang_lines += 1
        if policy := _POLICY.match(text):
            state.startup.adaptive = True
            state.depth = int(policy[1][:6])
            state.facts["candidate_steps"] = policy[2].replace(" ", "")
            return None
        if switch := _SWITCH.match(text):
            before, after = int(switch[1][:6]), int(switch[2][:6])
            state.depth = after
            state.switches.append((at_s, before, after))
            return LogEvent(Kind.DEPTH, f"depth {before} -> {after}", at_s, rank)
        return None

    def _arguments(self, text: str) -> None:
        """The ``server_args=`` line opens a start: in a log of several, what was known of the one before no longer holds."""
        state = self.state
        state.sglang_lines += 1
        if state.startup.ready or state.incidents or state.stopping:
            state.startup = Startup()
            state.stopping = False
        facts = {
            name: quoted or plain for name, quoted, plain in _ARGUMENTS.findall(text) if (quoted or plain) != "None"
        }
        if "speculative_draft_model_path" in facts:
            facts["draft_path"] = facts["speculative_draft_model_path"]
        state.facts = facts
        steps = facts.get("speculative_num_steps", "")
        state.depth = int(steps[:6]) if steps.isdigit() and "speculative_algorithm" in facts else None

    def _warn(self, text: str, rank: str, at_s: float | None) -> LogEvent | None:
        state = self.state
        shown = sanitize(text, state.secrets, limit_chars=300)
        if shown in state.warnings:
            state.warnings[shown] += 1
            return None
        if len(state.warnings) >= WARNINGS_KEPT:
            return None
        state.warnings[shown] = 1
        return LogEvent(Kind.WARNING, shown, at_s, rank)

    def _fatal(self, text: str, rank: str, at_s: float | None) -> LogEvent | None:
        state = self.state
        state.sglang_lines += 1
        if state.stopping and "bind on address" not in text:
            return self._warn(text, rank, at_s)
        self._incident(Incident(text[:2000], rank or torch_rank(text), at_s, state.startup.current))
        return LogEvent(Kind.FAILURE, sanitize(text, state.secrets, limit_chars=400), at_s, rank)

    def _incident(self, incident: Incident) -> None:
        if len(self.state.incidents) < INCIDENTS_KEPT:
            self.state.incidents.append(incident)

    # -------------------------------------------------------------------------------------- lines without a prefix

    def _bare(self, line: Line, raw: str) -> LogEvent | None:
        state = self.state
        text, _, rank, _ = line
        lane = rank
        if BEGIN in text:
            self._tracebacks.begin(text, rank=rank, lane=lane, at_s=state.last_at_s, phase=state.startup.current)
            return None
        belongs, traceback = self._tracebacks.feed(text, lane)
        if belongs:
            if _SOURCE.match(text):
                state.sglang_lines += 1
            return self._exception(traceback) if traceback is not None else None
        if "%" in text and "|" in text and state.startup.progress(text):
            return LogEvent(Kind.PROGRESS, state.startup.current, state.last_at_s)
        if raw.startswith("/") and "/sglang/" in raw and _SOURCE.match(raw):
            state.sglang_lines += 1
            return None
        if is_fatal_line(text):
            return self._bare_fatal(text, rank)
        if "deprecated and will be removed" in text and "--" in text:
            state.sglang_lines += 1
            return self._warn(text, rank, state.last_at_s)
        if text.startswith(("Decode batch", "Prefill batch")) and (event := self._batch(text, rank, None)) is not None:
            state.sglang_lines += 1
            return event
        return None

    def _bare_fatal(self, text: str, rank: str) -> LogEvent | None:
        """A line without SGLang's prefix is SGLang's only where it cannot be another program's."""
        state = self.state
        names_sglang = text.startswith(("sglang serve: error", "launch_server.py: error")) or NOT_INSTALLED in text
        if not (state.sglang_lines or state.access_lines or names_sglang):
            return None
        return self._fatal(text, rank, state.last_at_s)

    def _exception(self, traceback: Traceback) -> LogEvent | None:
        state = self.state
        message = traceback.messages[-1]
        if not (
            state.sglang_lines
            or traceback.passes("sglang/srt/", "sglang/launch_server", "sglang/cli/")
            or traceback.header.startswith(FATAL_HEADERS)
        ):
            return None  # another program's
        if not traceback.fatal or state.stopping or message.startswith(("KeyboardInterrupt", "SystemExit")):
            state.errors += 1
            state.last_error = traceback
            return None
        state.sglang_lines += 1
        if not any(incident.traceback is traceback for incident in state.incidents[-8:]):
            rank = traceback.rank or ("TP0" if "Scheduler hit" in traceback.header else "")
            self._incident(Incident(message, rank, traceback.at_s, traceback.phase, traceback))
        return LogEvent(Kind.FAILURE, sanitize(message, state.secrets, limit_chars=400), traceback.at_s, traceback.rank)
