"""What is known of one NVML device between two readings: values, reasons for gaps, when to ask again."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from console import rig
from console.agent.nvml_calls import PCIE_CELLS, PERMANENT, QUERIES, Cells, Query

BACKOFF_FIRST_S = 1.0
BACKOFF_MAX_S = 60.0
EMPTY: Cells = {"throttle": (), "processes": ()}
"""What a cell without a value holds where that is not ``None``."""
ALL_CELLS = tuple(cell for query in QUERIES for cell in query.cells) + PCIE_CELLS
PCIE = "pcie"


def clock_text(at_s: float) -> str:
    """Hours and minutes as the box's own clock shows them."""
    return time.strftime("%H:%M", time.localtime(at_s))


@dataclass
class Device:
    """One GPU, or one MIG instance of it. Lives in the sampler's thread."""

    index: int
    handle: Any
    name: str = ""
    uuid: str = ""
    pci: str = ""
    queries: tuple[Query, ...] = QUERIES
    parent_uuid: str = ""
    """Of the card a MIG instance belongs to."""
    state: str = "ok"
    note: str = ""
    since_s: float | None = None
    """When the state last changed to lost or error."""
    values: Cells = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    never: set[str] = field(default_factory=set)
    """Queries that this device will not answer while the driver is loaded."""
    failures: dict[str, int] = field(default_factory=dict)
    due_s: dict[str, float] = field(default_factory=dict)
    """Monotonic time of the next try, by query."""
    pcie_slow: bool = False
    """No byte counters: the driver's own slow sample has to do."""
    xid: int | None = None
    xid_at_s: float | None = None
    at_s: float | None = None

    @property
    def alive(self) -> bool:
        """Worth asking."""
        return self.state in {"ok", "mig"}

    def is_due(self, name: str, now_s: float) -> bool:
        """Whether a query may be asked now."""
        return name not in self.never and self.due_s.get(name, 0.0) <= now_s

    def store(self, query: str, cells: Cells, at_s: float | None) -> None:
        """Keep an answer."""
        self.values.update(cells)
        self.at_s = at_s
        self.failures.pop(query, None)
        for cell in cells:
            self.missing.pop(cell, None)

    def refuse(self, query: str, cells: tuple[str, ...], code: int) -> None:
        """The device will never answer: remember, and say why in each cell."""
        self.never.add(query)
        self._clear(cells, PERMANENT[code])

    def fail(self, query: str, cells: tuple[str, ...], why: str, now_s: float) -> None:
        """An error that may pass: no value rather than an old one, and a longer pause each time."""
        failures = self.failures.get(query, 0) + 1
        self.failures[query] = failures
        self.due_s[query] = now_s + min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2 ** (failures - 1))
        self._clear(cells, why)

    def lose(self, at_s: float, why: str = "") -> None:
        """The GPU does not answer any more; its row stays."""
        if self.state == "lost":
            return
        self.state = "lost"
        self.since_s = at_s
        self.note = f"LOST {clock_text(at_s)}" + (f" ({why})" if why else "")
        self._clear(ALL_CELLS, "lost")

    def error(self, at_s: float, note: str) -> None:
        """The GPU is there but useless."""
        if self.state != "error":
            self.since_s = at_s
        self.state = "error"
        self.note = note
        self._clear(ALL_CELLS, note)

    def revive(self, handle: Any) -> None:
        """The GPU answers again: everything is asked anew."""
        self.handle = handle
        self.state = "ok"
        self.note = ""
        self.since_s = None
        for memory in (self.never, self.failures, self.due_s, self.missing):
            memory.clear()

    def become_mig(self) -> None:
        """The card is partitioned: figures that NVML keeps for whole cards only get a reason."""
        self.state = "mig"
        self.note = "MIG on: a server cannot span its instances with tensor parallelism"
        for query in self.queries:
            if not query.on_mig:
                self.never.add(query.name)
                self._clear(query.cells, "n/a (MIG)")

    def row(self) -> rig.Gpu:
        """The device as the snapshot holds it."""
        return rig.Gpu(
            index=self.index,
            name=self.name,
            uuid=self.uuid,
            pci=self.pci,
            state=self.state,
            note=self.note,
            xid=self.xid,
            xid_at_s=self.xid_at_s,
            missing=dict(self.missing),
            at_s=self.at_s,
            **self.values,
        )

    def _clear(self, cells: tuple[str, ...], why: str) -> None:
        for cell in cells:
            self.values[cell] = EMPTY.get(cell)
            self.missing[cell] = why
