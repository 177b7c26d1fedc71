"""The probe's feed, read: what each rank of the engine says of itself (docs/architecture.md).

A message holds counters since the rank's start, so one that was missed loses nothing: every reading is a difference of
two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import msgspec

from console import rig

SCHEMA = 1
MESSAGE_LIMIT_BYTES = 1 << 20
MOST_RANKS = 1024
MOST_MESSAGES = 4096
"""Messages taken from the sockets in one read."""


class StageWindow(msgspec.Struct, frozen=True):
    """A stage over the rank's own newest rounds."""

    count: int = 0
    p50_ms: float | None = None
    p95_ms: float | None = None
    max_ms: float | None = None


class StageCounter(msgspec.Struct, frozen=True):
    """A stage since the rank's start; ``by_batch`` maps requests in the batch to rounds and milliseconds."""

    count: int = 0
    sum_ms: float = 0.0
    window: StageWindow = StageWindow()
    by_batch: dict[str, tuple[int, float]] = {}


class AcceptanceCounter(msgspec.Struct, frozen=True):
    """Acceptance since the rank's start; ``rounds`` counts request-rounds, ``steps`` batches."""

    steps: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    tries: tuple[int, ...] = ()
    hits: tuple[int, ...] = ()


class Capabilities(msgspec.Struct, frozen=True):
    """What can be changed live, and why not."""

    depth_live: bool = False
    depth_why: str = ""
    candidate_steps: tuple[int, ...] = ()
    swap_live: bool = False
    swap_why: str = ""


class Drafter(msgspec.Struct, frozen=True):
    """The drafter that is loaded; ``resident`` are those that can be loaded without reading files."""

    path: str = ""
    checksum: str = ""
    since_s: float = 0.0
    resident: tuple[str, ...] = ()


class Timing(msgspec.Struct, frozen=True):
    """How stages are timed: by what, every how many rounds, and how many rounds the feed has lost."""

    by: str = ""
    every: int = 1
    lost: int = 0


class Message(msgspec.Struct, frozen=True):
    """What one rank says. Fields that this console does not know are passed over."""

    schema: int
    rank: int
    pid: int
    at_s: float
    seq: int = 0
    tp: int = 1
    sglang: str = ""
    probe: str = ""
    hooks: dict[str, str] = {}
    capabilities: Capabilities = Capabilities()
    depth: int | None = None
    pinned: int | None = None
    adaptive: bool = False
    timing: Timing = Timing()
    stages: dict[str, StageCounter] = {}
    acceptance: AcceptanceCounter = AcceptanceCounter()
    switches: tuple[tuple[float, int | None, int | None, str], ...] = ()
    drafter: Drafter = Drafter()
    environment: dict[str, str] = {}


_DECODER = msgspec.json.Decoder(Message)


def decode(body: bytes) -> Message | None:
    """A message; ``None`` for what is none, is of another schema, or is too large."""
    if len(body) > MESSAGE_LIMIT_BYTES:
        return None
    try:
        message = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return message if message.schema == SCHEMA and 0 <= message.rank < MOST_RANKS else None


class StageDelta(msgspec.Struct, frozen=True):
    """A stage between two reads; the percentiles are over the rank's own newest rounds."""

    count: int
    sum_ms: float
    p50_ms: float | None
    p95_ms: float | None
    max_ms: float | None
    by_batch: dict[int, tuple[int, float]]

    @property
    def mean_ms(self) -> float | None:
        """Milliseconds a round; ``None`` without one."""
        return self.sum_ms / self.count if self.count else None


class RankWindow(msgspec.Struct, frozen=True):
    """One rank between two reads, and what holds now (``newest``)."""

    rank: int
    seconds: float | None
    """Between the two messages; ``None`` at the first one and after a restart, when nothing can be compared."""
    newest: Message
    restarted: bool = False
    """Another process than at the last read."""
    steps: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    tries: tuple[int, ...] = ()
    hits: tuple[int, ...] = ()
    stages: dict[str, StageDelta] = {}

    @property
    def accept_len(self) -> float | None:
        """Tokens a request-round, the bonus token included; ``None`` without a round."""
        return 1 + self.accepted / self.rounds if self.rounds else None


def between(old: Message | None, new: Message) -> RankWindow:
    """What one rank did from one message to a later one."""
    restarted = old is not None and old.pid != new.pid
    if old is None or restarted or _backwards(old, new):
        return RankWindow(new.rank, None, new, restarted)
    was, now = old.acceptance, new.acceptance
    return RankWindow(
        rank=new.rank,
        seconds=max(0.0, new.at_s - old.at_s),
        newest=new,
        steps=now.steps - was.steps,
        rounds=now.rounds - was.rounds,
        drafted=now.drafted - was.drafted,
        accepted=now.accepted - was.accepted,
        tries=_by_position(was.tries, now.tries),
        hits=_by_position(was.hits, now.hits),
        stages={name: _stage(old.stages.get(name, StageCounter()), counter) for name, counter in new.stages.items()},
    )


def _backwards(old: Message, new: Message) -> bool:
    """Counters never fall in one process: these two do not belong together."""
    was, now = old.acceptance, new.acceptance
    pairs = zip(
        (was.steps, was.rounds, was.drafted, was.accepted),
        (now.steps, now.rounds, now.drafted, now.accepted),
        strict=True,
    )
    return any(later < earlier for earlier, later in pairs)


def _by_position(old: Sequence[int], new: Sequence[int]) -> tuple[int, ...]:
    """Differences; a position that is new counts from zero."""
    return tuple(max(0, count - (old[index] if index < len(old) else 0)) for index, count in enumerate(new))


def _stage(old: StageCounter, new: StageCounter) -> StageDelta:
    batches = {}
    for size, (count, ms) in new.by_batch.items():
        count_was, ms_was = old.by_batch.get(size, (0, 0.0))
        if size.isascii() and size.isdigit() and count > count_was:
            batches[int(size)] = (count - count_was, max(0.0, ms - ms_was))
    window = new.window
    return StageDelta(
        max(0, new.count - old.count),
        max(0.0, new.sum_ms - old.sum_ms),
        window.p50_ms,
        window.p95_ms,
        window.max_ms,
        batches,
    )


class FeedReader:
    """Reads the feed of all ranks: their sockets while they talk, their files when they do not (yet).

    Nothing runs between two reads: ZMQ's own thread keeps what arrives.

    Args:
        probe_dir: the folder shared with the ranks.
        sockets: listen to the sockets too; the files alone are up to a second old.
    """

    def __init__(self, probe_dir: Path, *, sockets: bool = True) -> None:
        self._folder = probe_dir
        self._listen = sockets
        self._newest: dict[int, Message] = {}
        self._read: dict[int, Message] = {}
        self._sockets: dict[str, tuple[int, Any]] = {}
        self._stamps: dict[str, int] = {}
        self._context: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the sockets."""
        if self._context is not None:
            self._context.destroy(linger=0)
            self._context = None
        self._sockets.clear()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The newest message of each rank, by rank."""
        return tuple(message for _, message in sorted(self._newest.items()))

    def poll(self) -> tuple[Message, ...]:
        """Take what has come. Never raises: garbage is no message, a folder that is not there has no ranks."""
        names = self._names()
        for name in names:
            if name.endswith(".json"):
                self._take_file(name)
        if self._listen:
            self._connect([name for name in names if name.endswith(".sock")])
        for _, socket in self._sockets.values():
            self._take_all(socket)
        return self.messages

    def windows(self) -> tuple[RankWindow, ...]:
        """What each rank did since the last call, by rank. A rank without a new message is left out."""
        self.poll()
        found = []
        for rank, message in sorted(self._newest.items()):
            old = self._read.get(rank)
            if old is None or (old.pid, old.seq) != (message.pid, message.seq):
                found.append(between(old, message))
                self._read[rank] = message
        return tuple(found)

    def _names(self) -> list[str]:
        try:
            return sorted(path.name for path in self._folder.glob("probe-*"))[: 2 * MOST_RANKS]
        except OSError:
            return []

    def _take(self, body: bytes) -> None:
        message = decode(body)
        if message is None:
            return
        old = self._newest.get(message.rank)
        if old is None or old.at_s < message.at_s or (old.pid == message.pid and old.seq < message.seq):
            self._newest[message.rank] = message

    def _take_file(self, name: str) -> None:
        path = self._folder / name
        with suppress(OSError):
            status = path.stat()
            if self._stamps.get(name) == status.st_mtime_ns or status.st_size > MESSAGE_LIMIT_BYTES:
                return
            self._stamps[name] = status.st_mtime_ns
            self._take(path.read_bytes())

    def _connect(self, names: list[str]) -> None:
        """Follow each rank's socket; one that was bound anew has another inode."""
        import zmq

        for name in names:
            path = self._folder / name
            try:
                inode = path.stat().st_ino
                if name in self._sockets and self._sockets[name][0] == inode:
                    continue
                if self._context is None:
                    self._context = zmq.Context(io_threads=1)
                socket = self._context.socket(zmq.SUB)
                socket.set(zmq.LINGER, 0)
                socket.set(zmq.RCVHWM, 64)
                socket.set(zmq.MAXMSGSIZE, MESSAGE_LIMIT_BYTES)
                socket.set(zmq.SUBSCRIBE, b"")
                socket.connect(f"ipc://{path}")
            except (OSError, zmq.ZMQError):
                continue
            if name in self._sockets:
                self._sockets[name][1].close()
            self._sockets[name] = (inode, socket)

    def _take_all(self, socket: Any) -> None:
        import zmq

        for _ in range(MOST_MESSAGES):
            try:
                body = socket.recv(zmq.NOBLOCK)
            except zmq.ZMQError:
                return
            self._take(body)


def status(messages: Iterable[Message]) -> rig.ProbeStatus:
    """What the probe can do: what every rank can."""
    newest = sorted(messages, key=lambda message: message.rank)
    if not newest:
        return rig.ProbeStatus()
    attached = {message.rank: message.hooks.get("attach", "on") for message in newest}
    off = {rank: state for rank, state in attached.items() if state != "on"}
    return rig.ProbeStatus(
        present=len(off) < len(newest),
        why=_why(off),
        ranks=len(newest),
        version=newest[0].probe,
        depth_live=all(message.capabilities.depth_live for message in newest),
        depth_why=_why({m.rank: m.capabilities.depth_why for m in newest if not m.capabilities.depth_live}),
        swap_live=all(message.capabilities.swap_live for message in newest),
        swap_why=_why({m.rank: m.capabilities.swap_why for m in newest if not m.capabilities.swap_live}),
        hooks=_hooks(newest),
    )


def _why(reasons: Mapping[int, str]) -> str:
    """The reason, with its ranks when not every rank that has one has the same."""
    if len(set(reasons.values())) <= 1:
        return next(iter(reasons.values()), "")
    return "; ".join(f"rank {rank}: {why}" for rank, why in sorted(reasons.items()))


def _hooks(newest: Sequence[Message]) -> dict[str, str]:
    names = dict.fromkeys(name for message in newest for name in message.hooks)
    hooks = {}
    for name in names:
        states = {message.rank: message.hooks.get(name, "off: unknown to this rank") for message in newest}
        off = {rank: state for rank, state in states.items() if state != "on"}
        if len(off) == len(states) and len(set(off.values())) == 1:
            hooks[name] = next(iter(off.values()))
        else:
            hooks[name] = "; ".join(f"rank {rank}: {state}" for rank, state in off.items()) or "on"
    return hooks
