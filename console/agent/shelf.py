"""The drafters of this rig: on disk, in the hub cache and in the profile, judged against what runs, with what each did here."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from console import rig
from console.agent.handle import Handle
from console.agent.records import Records, Summary, summary
from console.drafters.catalogue import Entry
from console.errors import ConsoleError
from profiles.schema import Profile

SIMULATED = "sim/"
SERVING = frozenset({rig.EngineState.READY, rig.EngineState.PAUSED, rig.EngineState.BUSY})


class Item(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """One drafter as a list shows it."""

    running: bool = False
    listed: bool = False
    """The profile names it."""
    record: Summary | None = None


class Shelved(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer: every drafter, the one that runs first, then the profile's, then what else is in the cache."""

    items: tuple[Item, ...] = ()
    target: str = ""
    """What they were judged against; empty: nothing runs."""
    note: str = ""
    """Why the target is not known."""


class Shelf:
    """Judges when asked, and again only what has changed since. Its methods block.

    Args:
        now: the newest snapshot.
        handle: the engine's address and key; ``None`` without one.
        profile: the running engine's; ``None`` for one that was attached, or none.
        records: what each drafter did here.
    """

    def __init__(
        self,
        now: Callable[[], rig.Snapshot],
        handle: Callable[[], Handle | None],
        profile: Callable[[], Profile | None],
        records: Records,
    ) -> None:
        self._now = now
        self._handle = handle
        self._profile = profile
        self._records = records
        self._lock = threading.Lock()
        self._engine: tuple[object, ...] = ()
        self._facts: tuple[Any, Any, str] = (None, None, "")
        self._key: tuple[object, ...] = ()
        self._entries: tuple[Entry, ...] = ()

    def drafters(self) -> Shelved:
        """Everything that could draft, with its verdict. Never raises for what a checkpoint holds."""
        from console.drafters import catalogue

        with self._lock:
            engine = self._now().engine
            profile = self._profile()
            spec = profile.speculation if profile is not None else None
            listed = tuple(dict.fromkeys((spec.drafter, *spec.drafters))) if spec is not None else ()
            names = tuple(dict.fromkeys(name for name in (engine.drafter, *listed) if name))
            real = catalogue.with_neighbours(tuple(name for name in names if not name.startswith(SIMULATED)))
            target, running, note = self._against(engine)
            key = (real, target, running.label if running else "", signature(real))
            if key != self._key:
                entries = catalogue.catalogue(real, target=target, running=running)
                self._entries = tuple(one for one in entries if one.name in names or one.kind.startswith("EAGLE-3"))
                self._key = key
            simulated = tuple(_simulated(name) for name in names if name.startswith(SIMULATED))
            records = self._records.read()
            items = [self._item(entry, engine.drafter, listed, records) for entry in (*simulated, *self._entries)]
            items.sort(key=lambda item: (not item.running, not item.listed))
            return Shelved(tuple(items), target.origin if target is not None else "", note)

    def check(self, name: str) -> dict[str, Any]:
        """One drafter in full: every check with both values, its files, the comparison with the running one.

        Raises:
            ConsoleError: it is neither on this disk nor on the hub.
        """
        from console.drafters import check

        if name.startswith(SIMULATED):
            return {"verdict": "simulated", "why": _simulated(name).why, "checks": [], "drafter": {"name": name}}
        from console.drafters.catalogue import resolve

        engine = self._now().engine
        url, key = self._address(engine)
        place = resolve(name)
        # After a live swap the server still names the drafter of its launch, so the running one is told.
        running = resolve(engine.drafter) if url and engine.drafter else None
        judgement, subject = check.check(
            str(place) if place is not None else name,
            target=url,
            running=str(running) if running is not None else "",
            api_key=key,
        )
        return check.as_json(judgement, subject)

    def _address(self, engine: rig.Engine) -> tuple[str, str]:
        handle = self._handle()
        if engine.state not in SERVING or handle is None:
            return "", ""
        return handle.url, handle.api_key

    def _against(self, engine: rig.Engine) -> tuple[Any, Any, str]:
        """Facts of the target and the running drafter, asked once an engine and drafter; why there are none."""
        from console.drafters import check

        url, key = self._address(engine)
        if not url:
            return None, None, "no engine answers: nothing to judge against"
        same = (url, engine.pid, engine.started_at_s, engine.drafter, engine.algorithm)
        if same != self._engine:
            try:
                facts, serving = check.target_of(url, key)
                found = check.running_of(engine.drafter or serving)
                self._facts = (facts, found[1] if found else None, facts.problem)
            except ConsoleError as error:
                return None, None, error.line  # asked again next time
            self._engine = same
        return self._facts

    @staticmethod
    def _item(entry: Entry, drafter: str, listed: tuple[str, ...], records: dict[str, Any]) -> Item:
        from console.drafters.catalogue import resolve

        place = Path(entry.path) if entry.path else None
        mine = [name for name in (entry.name, entry.path) if name in records]
        runs = bool(drafter) and (
            drafter in (entry.name, entry.path) or (place is not None and resolve(drafter) == place)
        )
        fields = {name: getattr(entry, name) for name in entry.__struct_fields__}
        if runs and entry.verdict not in {"simulated", "same"}:
            fields |= {"verdict": "same", "why": "this drafter is running"}
        found = summary(records[mine[0]]) if mine else None
        return Item(**fields, running=runs, listed=entry.name in listed or entry.path in listed, record=found)


def _simulated(name: str) -> Entry:
    return Entry(
        name=name,
        kind="simulated",
        verdict="simulated",
        why="a drafter of the simulated rig: there are no files to check",
    )


def signature(names: tuple[str, ...]) -> tuple[object, ...]:
    """Changes when a folder that is named or cached changes: names, sizes and times of its files."""
    from console.drafters.catalogue import cache_folder, resolve

    places = [place for name in names if (place := resolve(name)) is not None]
    with contextlib.suppress(OSError):
        places += sorted(cache_folder().glob("models--*/snapshots/*"))
    return tuple((str(place), _files(place)) for place in places)


def _files(place: Path) -> tuple[object, ...]:
    found: list[tuple[object, ...]] = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(place):
            try:
                stat = entry.stat()
            except OSError:
                found.append((entry.name, None, None))
            else:
                found.append((entry.name, stat.st_size, stat.st_mtime_ns))
    return tuple(sorted(found, key=str))
