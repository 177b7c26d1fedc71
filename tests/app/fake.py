"""An agent that says what a test tells it to, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from console import rig
from console.agent.chart import Chart
from console.agent.ledger import Entry as LedgerEntry
from console.agent.pulls import Pull
from console.agent.shelf import Item, Shelved
from console.app import ConsoleApp
from console.environment import Matrix
from console.errors import ConsoleError
from console.screens.shelf import Entry
from profiles.schema import EngineSection, Profile, Speculation

AT_S = 1_790_000_000.0


def figure(value: float | None, source: rig.Source = rig.Source.PROBE) -> rig.Figure:
    return rig.Figure(value, source, AT_S)


def serving(**changes: object) -> rig.Snapshot:
    """The story's rig: a drafter at depth 2 with 30 ms cycles, two requests running."""
    engine = rig.Engine(
        state=rig.EngineState.READY,
        since_s=AT_S - 60,
        ready_at_s=AT_S - 60,
        profile="story",
        model="org/BigTarget",
        drafter="/d/first",
        algorithm="EAGLE3",
        tp=8,
        topk=1,
        depth_launch=2,
        draft_tokens=3,
        log_path="/rig/engine.log",
        pid=41,
        url="http://127.0.0.1:30000",
    )
    snapshot = rig.Snapshot(
        seq=1,
        at_s=AT_S,
        rig="test",
        engine=engine,
        gpus=tuple(rig.Gpu(index=i, name="H200", util_pct=50.0 + i) for i in range(8)),
        cycle=rig.Cycle(
            total_ms=figure(30.0), verify=rig.Stage(mean_ms=25.0, rounds=9, source=rig.Source.PROBE, at_s=AT_S)
        ),
        acceptance=rig.Acceptance(accept_len=figure(2.0), depth=figure(2.0)),
        load=rig.Load(running=figure(2.0), queued=figure(0.0), tok_s=figure(66.7)),
        agent=rig.AgentInfo(pid=1, version="0"),
        log_tail=("[2026-12-01 10:00:00 TP0] Decode batch",),
    )
    return msgspec.structs.replace(snapshot, **changes)


def with_engine(snapshot: rig.Snapshot, **changes: object) -> rig.Snapshot:
    return msgspec.structs.replace(snapshot, engine=msgspec.structs.replace(snapshot.engine, **changes))


def idle() -> rig.Snapshot:
    return rig.Snapshot(seq=1, at_s=AT_S, rig="test", agent=rig.AgentInfo(pid=1))


def operation(kind: str = "restart", **changes: object) -> rig.Operation:
    base = rig.Operation(id="op-1", kind=kind, title=f"{kind} it", by="ann", started_at_s=AT_S - 1, cancellable=True)
    return msgspec.structs.replace(base, **changes)


SHELVED = (
    Item(
        name="/d/first",
        path="/d/first",
        kind="EAGLE-3 (Llama)",
        verdict="same",
        running=True,
        listed=True,
        bytes=11_310_000,
    ),
    Item(
        name="/d/second",
        path="/d/second",
        kind="EAGLE-3 (Llama)",
        verdict="restart",
        why="it fits the target",
        listed=True,
    ),
)


class FakeLog:
    """A log of equally long lines, so that offsets are easy: line i begins at i * width."""

    width = 60

    def __init__(self, count: int = 0, text: Callable[[int], str] = lambda i: f"line {i}") -> None:
        self.count = count
        self.text = text
        self.path = "/rig/engine.log"
        self.asked = 0
        self.served = 0

    def page(self, before: int | None, after: int | None, limit: int) -> dict[str, object]:
        self.asked += 1
        size = self.count * self.width
        if after is not None:
            first = min(after, size) // self.width
            last = min(first + limit, self.count)
        else:
            last = (size if before is None else min(before, size)) // self.width
            first = max(0, last - limit)
        self.served += last - first
        lines = tuple(self.text(i) for i in range(first, last))
        return {
            "path": self.path,
            "size": size,
            "start": first * self.width,
            "end": last * self.width,
            "lines": list(lines),
        }


@dataclass
class FakeAgent:
    """Records operations; its stream gives what :meth:`push` puts there."""

    previews: dict[str, rig.Preview] = field(default_factory=dict)
    error: ConsoleError | None = None
    asked: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    begun: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    cancelled: int = 0
    connects: int = 0
    refuse_connects: int = 0
    past: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    past_asked: list[tuple[str, float | None, float | None]] = field(default_factory=list)
    charts_asked: list[tuple[float, float, float]] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    log_file: FakeLog = field(default_factory=FakeLog)
    kept: list[LedgerEntry] = field(default_factory=list)
    matrix: Matrix = field(default_factory=Matrix)
    shelved: tuple[Item, ...] = SHELVED
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    checked: list[str] = field(default_factory=list)
    pulling: list[Pull] = field(default_factory=list)
    _queue: queue.Queue[rig.Snapshot | Exception | None] = field(default_factory=queue.Queue)

    def connect(self) -> FakeAgent:
        self.connects += 1
        if self.refuse_connects > 0:
            self.refuse_connects -= 1
            raise ConsoleError("no agent answers", why="connection refused")
        return self

    def push(self, item: rig.Snapshot | Exception | None) -> None:
        """A snapshot; an exception breaks the stream; None ends it."""
        self._queue.put(item)

    def stream(self) -> Iterator[rig.Snapshot]:
        while True:
            item = self._queue.get()
            if item is None:
                return
            if isinstance(item, Exception):
                raise item
            yield item

    def preview(self, kind: str, args: Mapping[str, object]) -> rig.Preview:
        self.asked.append((kind, dict(args)))
        if self.error:
            raise self.error
        return self.previews.get(kind) or rig.Preview(
            kind=kind,
            title=f"{kind} {args}",
            path="restart",
            changes=(rig.Change("depth", "2", "3"),),
            expected_s=70.0,
            expected_from="3 earlier starts",
        )

    def operate(self, kind: str, args: Mapping[str, object]) -> rig.Operation:
        self.begun.append((kind, dict(args)))
        return rig.Operation(id=f"op-{len(self.begun)}", kind=kind, title=kind)

    def cancel(self) -> None:
        self.cancelled += 1

    def runs(self, kind: str = "", limit: int = 50) -> list[LedgerEntry]:
        return self.kept[-limit:]

    def environment(self) -> Matrix:
        if self.error:
            raise self.error
        return self.matrix

    def history(self, kind: str, since: float | None = None, until: float | None = None) -> list[dict[str, Any]]:
        self.past_asked.append((kind, since, until))
        return self.past.get(kind, [])

    def series(self, since: float, until: float, step: float) -> Chart:
        self.charts_asked.append((since, until, step))
        count = round((until - since) / step)
        return Chart(since, step, {"tok_s": tuple(float(i) for i in range(count)), "accept_len": (None,) * count})

    def acknowledge(self, alarm_id: str) -> None:
        self.acknowledged.append(alarm_id)

    def drafters(self) -> Shelved:
        if self.error:
            raise self.error
        return Shelved(self.shelved, target="http://127.0.0.1:30000")

    def check_drafter(self, name: str) -> Mapping[str, Any]:
        self.checked.append(name)
        return self.answers.get(name, {"verdict": "restart", "checks": [], "drafter": {"name": name}})

    def pulls(self) -> list[Pull]:
        return list(self.pulling)

    def pull(self, repository: str) -> Pull:
        pull = Pull(id=f"p{len(self.pulling)}", repository=repository, started_at_s=AT_S)
        self.pulling.append(pull)
        return pull

    def cancel_pull(self, pull_id: str) -> Pull:
        self.pulling = [
            msgspec.structs.replace(pull, state="cancelled") if pull.id == pull_id else pull for pull in self.pulling
        ]
        return self.pulling[-1]

    def log(self, before: int | None = None, after: int | None = None, limit: int = 200) -> dict[str, object]:
        return self.log_file.page(before, after, limit)


class FakeShelf:
    """Two good profiles and a broken one."""

    def __init__(self) -> None:
        self.saved: list[tuple[Profile, bool]] = []
        self.pinned: list[tuple[str, str, str]] = []
        self.profile = Profile(
            name="story",
            description="the story's box",
            engine=EngineSection(model="org/BigTarget", tp=8),
            speculation=Speculation(
                algorithm="EAGLE3",
                drafter="/d/first",
                steps=2,
                topk=1,
                draft_tokens=3,
                drafters=("/d/first", "/d/second"),
            ),
        )

    def entries(self) -> list[Entry]:
        return [
            Entry("story", "the [red]story's[/] box", "yours"),
            Entry("tiny", "a small pair", "built-in"),
            Entry("torn.toml", "", "broken", "torn.toml: engine.tp: expected int, got str"),
        ]

    def load(self, name: str) -> Profile:
        return self.profile

    def pin(self, name: str, repository: str, revision: str, *, write: bool) -> list[tuple[str, str, str]]:
        if repository != "org/listed":
            raise ConsoleError(f"profile {name} does not name {repository}")
        if write:
            self.pinned.append((name, repository, revision))
        return [("speculation.revision", "-", revision)]

    def save(self, profile: Profile, based_on: Profile, *, replace: bool) -> str:
        self.saved.append((profile, replace))
        return f"/profiles/{profile.name}.toml"


def make(agent: FakeAgent, **options: object) -> ConsoleApp:
    return ConsoleApp(agent.connect, rig="test", shelf=FakeShelf(), **options)  # type: ignore[arg-type]


async def until(condition: Callable[[], object], what: str, timeout_s: float = 5.0) -> None:
    """Wait for something that happens in another thread."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"did not come: {what}")
        await asyncio.sleep(0.01)


async def shows(app: ConsoleApp, text: str, timeout_s: float = 5.0) -> None:
    """Wait until a text is on the screen."""
    deadline = time.monotonic() + timeout_s
    while text not in (screen := screen_text(app)):
        if time.monotonic() > deadline:
            raise AssertionError(f"{text!r} is not on the screen:\n{screen}")
        await asyncio.sleep(0.02)


def screen_text(app: ConsoleApp) -> str:
    """What stands on the terminal, row by row, after the app's line filters."""
    rows = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in rows)
