"""The phases of a start, from the log: which runs, how far it is, how long each took.

A phase is one for all ranks: it begins with the first rank and ends with the last. Seconds are the log's own ``elapsed=``
where it gives one (the longest rank's), else the distance of time stamps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from console.rig import Phase

LABELS = {
    "imports": "Imports and argument checks",
    "distributed": "Torch distributed init",
    "weights_target": "Target weights",
    "weights_draft": "Drafter weights",
    "kv_pool": "KV pool",
    "tiers": "Adaptive depths",
    "warmup": "HTTP server and warm-up",
    "ready": "Start to ready",
}
GRAPH_PREFIX = "graphs_"

_DISTRIBUTED = re.compile(r"Init (?:torch distributed|parallel) (?P<edge>begin|ends?)\.?(?: elapsed=(?P<s>[\d.]+) s)?")
_WEIGHTS = re.compile(r"Load weight (?P<edge>begin|end)\.(?: elapsed=(?P<s>[\d.]+) s)?(?:,? type=(?P<type>\w+))?")
_CAPTURE = re.compile(
    r"Capture (?:(?P<kind>[a-z][a-z ]{0,40}?) )?(?:CUDA|CPU|NPU|XPU|HIP|MUSA|cuda|cpu|npu|xpu|hip|musa) graph "
    r"(?P<edge>begin|end)\."
    r"(?:.*?elapsed[=:] ?(?P<s>[\d.]+) s)?"
)
_TIER = re.compile(r"Built adaptive runtime state steps=(?P<steps>\d+): elapsed=(?P<s>[\d.]+)s")
_ENGINE_TIMES = re.compile(r"Engine startup timings \(s\): .*?kv_cache_allocation=(?P<kv>[\d.]+)")
_PROGRESS = re.compile(r"(?P<pct>\d{1,3})%(?: Completed)? ?\|[^|]*?\|? ?(?P<done>\d+)/(?P<all>\d+)")
READY = "The server is fired up and ready to roll"


@dataclass(slots=True)
class _Running:
    """A phase as it is measured."""

    name: str
    label: str
    started_at_s: float | None
    ended_at_s: float | None = None
    elapsed_s: float | None = None
    open_ranks: set[str] = field(default_factory=set)
    progress: float | None = None
    count: str = ""
    """Shards or batches done, of how many, while it runs."""
    note: str = ""
    """What it was about: a class, a size, depths."""

    @property
    def seconds(self) -> float | None:
        if self.elapsed_s is not None:
            return round(self.elapsed_s, 3)
        if self.started_at_s is None or self.ended_at_s is None:
            return None
        return max(0.0, self.ended_at_s - self.started_at_s)

    @property
    def done(self) -> bool:
        return not self.open_ranks and (self.ended_at_s is not None or self.elapsed_s is not None)


class Startup:
    """Follows one start through the log."""

    def __init__(self) -> None:
        self.ready = False
        self.current = ""
        """Name of the phase that runs; empty before the first line and when the server is ready."""
        self._phases: dict[str, _Running] = {}
        self._loads: dict[str, int] = {}
        self._captured: dict[str, set[str]] = {}
        self._capturing: dict[str, str] = {}
        self._first_s: float | None = None
        self._last_s: float | None = None
        self.adaptive = False

    @property
    def started(self) -> bool:
        """Whether a start has been seen at all."""
        return bool(self._phases)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases so far, in the order they began."""
        return tuple(
            Phase(
                name=phase.name,
                label=phase.label,
                started_at_s=phase.started_at_s,
                seconds=phase.seconds if phase.done else None,
                progress=None if phase.done else phase.progress,
                detail=phase.note if phase.done else phase.count or phase.note,
            )
            for phase in self._phases.values()
        )

    def clock(self, at_s: float | None) -> None:
        """Every line with a time stamp: the first opens the imports."""
        if at_s is None:
            return
        self._last_s = at_s
        if self._first_s is None:
            self._first_s = at_s
            if not self._phases:
                self._begin("imports", LABELS["imports"], "", at_s)

    def read(self, text: str, rank: str, at_s: float | None) -> str:
        """A line that begins with one of the words of a start.

        Returns:
            The name of the phase that it began or ended; empty when it is none of a start's lines.
        """
        for pattern, reader in (
            (_WEIGHTS, self._weights),
            (_CAPTURE, self._capture),
            (_DISTRIBUTED, self._distributed),
            (_TIER, self._tier),
            (_ENGINE_TIMES, self._engine_times),
        ):
            if found := pattern.match(text):
                return reader(found, rank, at_s)
        if "emory pool end." in text or "is allocated. dtype" in text or "VA upper bound. dtype" in text:
            return self._kv(text, rank, at_s)
        if text.startswith("AdaptiveSpeculativeParams"):
            self.adaptive = True
        return ""

    def server_starts(self, at_s: float | None) -> None:
        """Uvicorn begins: what follows until the fired-up line is warm-up."""
        self._end("kv_pool", "", at_s)
        self._begin("warmup", LABELS["warmup"], "", at_s)

    def fired_up(self, at_s: float | None) -> None:
        """The server is ready."""
        self.ready = True
        for name in list(self._phases):
            phase = self._phases[name]
            if not phase.done:
                phase.open_ranks.clear()
                phase.ended_at_s = at_s if at_s is not None else self._last_s
        self.current = ""
        total = self._phases.setdefault("ready", _Running("ready", LABELS["ready"], self._first_s))
        total.ended_at_s = at_s if at_s is not None else self._last_s

    def progress(self, text: str) -> bool:
        """A progress bar of the phase that runs."""
        phase = self._phases.get(self.current)
        found = _PROGRESS.search(text[:600])
        if phase is None or found is None or phase.done:
            return False
        done, total = int(found["done"][:9]), int(found["all"][:9])
        phase.progress = min(1.0, done / total) if total else None
        phase.count = f"{done}/{total}"
        return True

    # ------------------------------------------------------------------------------------------ one kind of line each

    def _distributed(self, found: re.Match[str], rank: str, at_s: float | None) -> str:
        if self._loads.get(rank):
            return ""  # the draft worker initialises again, at no cost
        if found["edge"] == "begin":
            return self._begin("distributed", LABELS["distributed"], rank, at_s)
        return self._end("distributed", rank, at_s, found["s"])

    def _weights(self, found: re.Match[str], rank: str, at_s: float | None) -> str:
        if found["edge"] == "begin":
            self._loads[rank] = self._loads.get(rank, 0) + 1
        name = "weights_draft" if self._loads.get(rank, 1) > 1 else "weights_target"
        if found["edge"] == "begin":
            return self._begin(name, LABELS[name], rank, at_s)
        ended = self._end(name, rank, at_s, found["s"])
        if found["type"] and name in self._phases:
            self._phases[name].note = found["type"]
        return ended

    def _kv(self, text: str, rank: str, at_s: float | None) -> str:
        first = "kv_pool" not in self._phases
        if first:
            weights = self._phases.get("weights_draft") or self._phases.get("weights_target")
            begun = weights.ended_at_s if weights is not None and weights.ended_at_s is not None else at_s
            self._begin("kv_pool", LABELS["kv_pool"], rank, begun)
        phase = self._phases["kv_pool"]
        if (tokens := re.search(r"#tokens: (\d{1,15})", text)) and not phase.note:
            phase.note = f"{tokens[1]} tokens"
        phase.open_ranks.discard(rank)
        phase.ended_at_s = at_s
        return "kv_pool"

    def _capture(self, found: re.Match[str], rank: str, at_s: float | None) -> str:
        kind = (found["kind"] or "decode").strip()
        kind = "draft decode" if kind == "draft" else kind
        captured = self._captured.setdefault(rank, set())
        if found["edge"] == "begin":
            self._end("kv_pool", rank, at_s)
            # The initial depth's graphs end with draft extend; what is captured later belongs to other depths.
            other_depth = self.adaptive and ("draft extend" in captured or kind in captured)
            name = "tiers" if other_depth else GRAPH_PREFIX + kind.replace(" ", "_")
            self._capturing[rank] = name
            return self._begin(name, LABELS.get(name, f"Graphs: {kind}"), rank, at_s)
        name = self._capturing.pop(rank, GRAPH_PREFIX + kind.replace(" ", "_"))
        captured.add(kind)
        return "" if name == "tiers" else self._end(name, rank, at_s, found["s"])

    def _tier(self, found: re.Match[str], rank: str, at_s: float | None) -> str:
        self._begin("tiers", LABELS["tiers"], rank, at_s)
        phase = self._phases["tiers"]
        steps = found["steps"]
        known = phase.note.removeprefix("depth ").split(", ") if phase.note else []
        first_rank = steps not in known
        if first_rank:
            phase.note = "depth " + ", ".join([*known, steps])
        phase.open_ranks.discard(rank)
        phase.ended_at_s = at_s
        if first_rank:  # ranks build the same depth side by side: the first one's time stands for all
            phase.elapsed_s = (phase.elapsed_s or 0.0) + _seconds(found["s"])
        return "tiers"

    def _engine_times(self, found: re.Match[str], rank: str, at_s: float | None) -> str:  # noqa: ARG002 - one signature for all
        phase = self._phases.get("kv_pool")
        if phase is not None:
            phase.elapsed_s = _seconds(found["kv"])
        return ""

    # ------------------------------------------------------------------------------------------ edges

    def _begin(self, name: str, label: str, rank: str, at_s: float | None) -> str:
        if name != "imports":
            self._end("imports", "", at_s)
        phase = self._phases.get(name)
        if phase is None:
            phase = self._phases[name] = _Running(name, label, at_s)
        phase.open_ranks.add(rank)
        self.current = name
        return name

    def _end(self, name: str, rank: str, at_s: float | None, elapsed: str | None = None) -> str:
        phase = self._phases.get(name)
        if phase is None or (rank not in phase.open_ranks and elapsed is None):
            return ""
        phase.open_ranks.discard(rank)
        if phase.ended_at_s is None or (at_s is not None and at_s > phase.ended_at_s):
            phase.ended_at_s = at_s
        if elapsed:
            phase.elapsed_s = max(phase.elapsed_s or 0.0, _seconds(elapsed))
        phase.progress = None
        return name


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
