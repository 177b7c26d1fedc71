"""Post-mortem of a saved log, with scrapes beside it: what the engine reached, how it started, why it failed. No server needed.

A log is read once, in pieces, in bounded memory: sums are exact, medians come from an evenly thinned sample.
"""

from __future__ import annotations

import gzip
import io
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import BinaryIO, cast

from console.engine import metrics
from console.engine.batches import DecodeBatch
from console.engine.log import LogReader, LogState
from console.engine.metrics import MetricsWindow, Scrape
from console.errors import ConsoleError, ExitCode
from console.rig import Failure, Phase

CHUNK_BYTES = 1024 * 1024
SAMPLE_LIMIT = 32 * 1024
BUCKETS = (1, 4, 8, 16, 32, 64, 128, 256)
"""Batches are compared within a bucket only: cycle and speed depend on how many requests share a round."""
LINES_FOR_VERDICT = 3
SPARSE_START_PHASES = ("distributed",)


class Sample:
    """Minimum, maximum and mean of all values, exact; their median from an evenly thinned sample of bounded size."""

    def __init__(self, limit: int = SAMPLE_LIMIT) -> None:
        self.count = 0
        self.total = 0.0
        self.low = float("inf")
        self.high = float("-inf")
        self.last: float | None = None
        self._kept = array("d")
        self._stride = 1
        self._limit = limit

    def add(self, value: float) -> None:
        """One more value."""
        if self.count % self._stride == 0:
            self._kept.append(value)
            if len(self._kept) >= self._limit:
                self._kept = self._kept[::2]
                self._stride *= 2
        self.count += 1
        self.total += value
        self.low = min(self.low, value)
        self.high = max(self.high, value)
        self.last = value

    @property
    def mean(self) -> float | None:
        """Mean of all values."""
        return self.total / self.count if self.count else None

    @property
    def median(self) -> float | None:
        """Median."""
        return median(self._kept) if self._kept else None


@dataclass(slots=True)
class Bucket:
    """Decode lines with a similar number of running requests."""

    upto: int
    """Largest number of requests in it."""
    accept_len: Sample = field(default_factory=Sample)
    cycle_ms: Sample = field(default_factory=Sample)
    stream_tok_s: Sample = field(default_factory=Sample)
    """Tokens a second of one request."""

    @property
    def label(self) -> str:
        """``1``, ``2-4``, ``5-8``, ..., ``257+``."""
        if self.upto > BUCKETS[-1]:
            return f"{BUCKETS[-1] + 1}+"
        position = BUCKETS.index(self.upto)
        low = BUCKETS[position - 1] + 1 if position else 1
        return str(self.upto) if low == self.upto else f"{low}-{self.upto}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether speculation paid against a baseline."""

    baseline_tok_s: float
    break_even_accept_len: float | None
    accept_len: float | None
    cycle_ms: float | None
    running: str
    """The bucket it was judged on."""
    word: str
    """pays, loses or cannot tell."""
    why: str


@dataclass(slots=True)
class Explanation:
    """Everything a log and its scrapes tell."""

    state: LogState
    accept_len: Sample = field(default_factory=Sample)
    cycle_ms: Sample = field(default_factory=Sample)
    tok_s: Sample = field(default_factory=Sample)
    graphs: int = 0
    graph_lines: int = 0
    buckets: dict[int, Bucket] = field(default_factory=dict)
    depths: Sample = field(default_factory=lambda: Sample(limit=64))
    """Depth as the batch lines themselves tell it, for a log without its beginning."""
    window: MetricsWindow | None = None
    scrape: Scrape | None = None
    notes: list[str] = field(default_factory=list)

    def add(self, batch: DecodeBatch) -> None:
        """One decode line."""
        self.tok_s.add(batch.tok_s)
        if batch.graph is not None:
            self.graph_lines += 1
            self.graphs += batch.graph
        upto = next((limit for limit in BUCKETS if batch.running <= limit), BUCKETS[-1] + 1)
        bucket = self.buckets.setdefault(upto, Bucket(upto))
        if batch.accept_len is not None:
            self.accept_len.add(batch.accept_len)
            bucket.accept_len.add(batch.accept_len)
        if (cycle_ms := batch.cycle_ms) is not None:
            self.cycle_ms.add(cycle_ms)
            bucket.cycle_ms.add(cycle_ms)
            bucket.stream_tok_s.add(batch.tok_s / batch.running)
        if batch.depth is not None:
            self.depths.add(batch.depth)

    @property
    def is_sglang(self) -> bool:
        """Whether a single line was SGLang's."""
        return bool(self.state.sglang_lines or self.state.access_lines)

    @property
    def depth(self) -> int | None:
        """Last depth known: from arguments and switches, else from the scrape, else from the batch lines."""
        if self.state.depth is not None:
            return self.state.depth
        if self.scrape is not None and (steps := self.scrape.gauge("spec_num_steps")) is not None:
            return int(steps)
        found = self.depths.median
        return int(found) if found is not None and found == int(found) and found >= 1 else None

    @property
    def graph_share(self) -> float | None:
        """Fraction of decode passes that replayed a graph: of the log's batch lines, else of the scrapes' counters."""
        if self.graph_lines:
            return self.graphs / self.graph_lines
        return self.window.graph_share if self.window is not None else None

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Causes of a failure, the first one first."""
        return self.state.failures

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Phases of the newest start."""
        return self.state.phases

    @property
    def warnings(self) -> list[str]:
        """What is worth knowing, the console's own remarks first."""
        repeated = [f"{text} ({times} times)" if times > 1 else text for text, times in self.state.warnings.items()]
        return [*self.notes, *repeated]

    def as_json(self) -> dict[str, object]:
        """The keys of ``console explain --json``; a missing value is ``null``."""
        length = self.accept_len
        return {
            "lines": self.state.lines,
            "batches": self.state.decode_lines,
            "accept_len": None
            if not length.count
            else {"last": length.last, "mean": _rounded(length.mean), "min": length.low, "max": length.high},
            "cycle_ms": _rounded(self.cycle_ms.median),
            "gen_throughput_tok_s": _rounded(self.tok_s.median),
            "depth": self.depth,
            "cuda_graph_share": _rounded(self.graph_share),
            "startup": [{"phase": phase.name, "seconds": phase.seconds} for phase in self.phases],
            "failures": [
                {"kind": cause.kind, "message": cause.message, "ranks": list(cause.ranks), "advice": cause.advice}
                for cause in self.failures
            ],
            "warnings": self.warnings,
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


# ------------------------------------------------------------------------------------------------ reading


def explain(chunks: Iterable[bytes], scrapes: Iterable[Scrape] = ()) -> Explanation:
    """Read a log to its end.

    Args:
        chunks: the log's bytes in pieces of any size.
        scrapes: saved ``/metrics``, oldest first.
    """
    reader = LogReader()
    result = Explanation(reader.state)
    for chunk in chunks:
        _take(result, reader, chunk)
    for event in reader.close():
        if isinstance(event.batch, DecodeBatch):
            result.add(event.batch)
    _add_scrapes(result, list(scrapes))
    _remark(result)
    return result


def _take(result: Explanation, reader: LogReader, chunk: bytes) -> None:
    for event in reader.feed(chunk):
        if isinstance(event.batch, DecodeBatch):
            result.add(event.batch)


def _add_scrapes(result: Explanation, scrapes: list[Scrape]) -> None:
    good = [scrape for scrape in scrapes if not scrape.why]
    if not good:
        return
    result.scrape = good[-1]
    # One scrape alone still holds sums since the start: the window from nothing to it.
    result.window = metrics.window(good[0] if len(good) > 1 else Scrape(), good[-1])


def _remark(result: Explanation) -> None:
    state = result.state
    if state.access_lines and not state.sglang_lines:
        result.notes.append(
            "only HTTP access lines (SGLang's stdout): batches, start-up and failures stand in its stderr log"
        )
        return
    if not result.is_sglang:
        return
    if state.simulated:
        result.notes.append("SIMULATED: this is the log of the simulated engine, no figure in it was measured")
    if (
        state.startup.started
        and not state.ready
        and not result.failures
        and not state.stopping
        and not state.decode_lines
    ):
        result.notes.append(_cut_start(state))
    if state.errors and state.last_error is not None and state.last_error.messages:
        what = "1 exception" if state.errors == 1 else f"{state.errors} exceptions"
        if not result.failures or state.ready:
            result.notes.append(
                f"{what} ended a request or a command, not the server; the last: {state.last_error.messages[-1][:200]}"
            )
    if state.retracted:
        result.notes.append(
            f"the KV pool ran full {state.retracted} times and requests were put back: lower --max-running-requests"
        )
    if result.accept_len.count and result.accept_len.high <= 1.01:
        result.notes.append(
            "accept len never left 1.00: the drafter contributes nothing (missing weights, wrong class or algorithm)"
        )


def _cut_start(state: LogState) -> str:
    """A log that ends before the server was ready: in which phase, and what that usually means."""
    phases = [phase for phase in state.phases if phase.seconds is None]
    if not phases:
        return "the log ends in the middle of a start, without a failure"
    text = f"the log ends in the middle of a start, in phase {phases[-1].label}"
    if phases[-1].name in SPARSE_START_PHASES:
        text += ": a hang here is NCCL's - compare ranks, look at the topology (nvidia-smi topo -m), start with NCCL_DEBUG=INFO"
    return text


def judge(result: Explanation, baseline_tok_s: float) -> Verdict:
    """Against a baseline of one stream without speculation; like with like, so on lines with one running request if any."""
    from console import economics

    buckets = [
        bucket
        for bucket in result.buckets.values()
        if bucket.accept_len.count >= LINES_FOR_VERDICT and bucket.cycle_ms.count
    ]
    if not buckets:
        why = (
            "the log has too few decode lines with an accept len"
            if result.state.decode_lines
            else "the log has no decode lines"
        )
        return Verdict(baseline_tok_s, None, None, None, "", "cannot tell", why)
    single = [bucket for bucket in buckets if bucket.upto == 1]
    bucket = single[0] if single else max(buckets, key=lambda found: found.accept_len.count)
    cycle_ms, accept_len = cast("float", bucket.cycle_ms.median), cast("float", bucket.accept_len.mean)
    needed = economics.break_even(baseline_tok_s, cycle_ms)
    why = (
        ""
        if single
        else f"no line with one running request: judged at {bucket.label}, which a baseline of one stream does not match"
    )
    word = "pays" if accept_len > needed else "loses"
    return Verdict(baseline_tok_s, needed, accept_len, cycle_ms, bucket.label, word, why)


# ------------------------------------------------------------------------------------------------ files


def chunks_of(path: str, stdin: BinaryIO | None = None) -> Iterator[bytes]:
    """The bytes of a log, unpacked when it is gzip or zstandard; ``-`` reads standard input.

    Raises:
        ConsoleError: it cannot be read.
    """
    try:
        if path == "-":
            if stdin is None:
                raise ConsoleError("standard input is closed", code=ExitCode.USAGE)
            yield from _pieces(
                _unpacked(io.BufferedReader(cast("io.RawIOBase", stdin)) if not hasattr(stdin, "peek") else stdin)
            )
            return
        if Path(path).is_dir():
            raise ConsoleError(f"{path} is a folder", todo="name the log file in it", code=ExitCode.USAGE)
        with Path(path).open("rb") as file:
            yield from _pieces(_unpacked(file))
    except (OSError, EOFError) as error:
        why = (error.strerror or str(error)) if isinstance(error, OSError) else "the compressed file is cut off"
        raise ConsoleError(f"{path} cannot be read", why=why, code=ExitCode.USAGE) from error


def _unpacked(file: BinaryIO) -> BinaryIO:
    head = cast("io.BufferedReader", file).peek(4)[:4]
    if head[:2] == b"\x1f\x8b":
        return cast("BinaryIO", gzip.GzipFile(fileobj=file))
    if head == b"\x28\xb5\x2f\xfd":
        import zstandard

        return cast("BinaryIO", _ZstdReader(zstandard.ZstdDecompressor().stream_reader(file), zstandard.ZstdError))
    return file


class _ZstdReader:
    """Reads a zstandard stream; damage in it is an ``OSError`` as everywhere else."""

    def __init__(self, stream: BinaryIO, damage: type[Exception]) -> None:
        self._stream = stream
        self._damage = damage

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes."""
        try:
            return self._stream.read(size)
        except self._damage as error:
            raise OSError(0, f"the compressed file is damaged ({error})") from error


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    import zlib

    while True:
        try:
            piece = file.read(CHUNK_BYTES)
        except zlib.error as error:
            raise OSError(0, f"the compressed file is damaged ({error})") from error
        if not piece:
            return
        yield piece


def read_scrape(path: str) -> Scrape:
    """A saved ``/metrics``.

    Raises:
        ConsoleError: it cannot be read, or is none.
    """
    text = bytearray()
    for piece in chunks_of(path):
        text += piece
        if len(text) > metrics.SIZE_LIMIT_CHARS:
            raise ConsoleError(f"{path} is no saved scrape", why="it is longer than 64 MiB", code=ExitCode.USAGE)
    scrape = metrics.parse(bytes(text))
    if scrape.why:
        raise ConsoleError(f"{path} is no scrape of SGLang's /metrics", why=scrape.why, code=ExitCode.USAGE)
    return scrape
