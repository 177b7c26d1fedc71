"""One row a GPU: what it does, what it holds, what limits it, and whose processes are on it."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from console.rig import Gpu, GpuProcess, Snapshot, Source, age_s
from panels import glyphs
from panels.bars import meter
from panels.base import Frame
from panels.columns import Column, choose, headings, line
from panels.rows import EMPTY, Row, Span, fit, join, join_fitting, spread, width, wrap
from panels.scroll import ScrollingPanel
from panels.text import age, clean, clock, gib, nothing, number, origin, rate

_STALE_AFTER_S = 5.0
_HOT_C, _TOO_HOT_C = 80.0, 88.0
"""Where a data-centre GPU's temperature deserves a look, and where it slows down (H100/H200: 87 to 90)."""
_FULL = 0.97

_STATE_CELLS = (6, 24)
"""Bounds of the state column before it takes spare width."""

_COLUMNS = (  # what changes most often stands at the left: Textual writes a row up to its last changed cell
    Column("index", "GPU", 3, right=True),
    Column("rank", "rank", 4, keep=5, right=True),
    Column("util_bar", "", 4, keep=7, flex=3, most=34),
    Column("util", "util", 4, right=True),
    Column("power", "W/limit", 9, keep=2, right=True),
    Column("temp", "temp", 4, keep=1, right=True),
    Column("clock", "MHz", 4, keep=4, right=True),
    Column("pcie", "PCIe tx/rx", 10, keep=6, right=True),
    Column("mem_bar", "", 4, keep=8, flex=3, most=34),
    Column("mem", "mem GiB", 8, keep=1, right=True),
    Column("state", " state", _STATE_CELLS[0], flex=4, most=60),
)


class Gpus(ScrollingPanel):
    """The GPUs, their heading fixed, the rows scrolling when there are more than fit."""

    TITLE: ClassVar[str] = "GPUs"

    def body(self, snapshot: Snapshot, cells: int, rows: int) -> list[Row]:
        """Heading and rows; without GPUs, the reason."""
        if not snapshot.gpus:
            self.window([], 0)
            return wrap_reason(snapshot.gpu_note or "no GPU was found", cells, rows)
        states = [_states(gpu, snapshot) for gpu in snapshot.gpus]
        words = max(width(parts[0]) + 1 for parts in states)
        state = replace(_COLUMNS[-1], cells=min(_STATE_CELLS[1], max(_STATE_CELLS[0], words)))
        columns = choose((*_COLUMNS[:-1], state), cells)
        sizes = {column.key: column.cells for column in columns}
        table = [
            line(columns, _cells(gpu, snapshot, sizes) | {"state": _fitting(parts, sizes.get("state", 2))})
            for gpu, parts in zip(snapshot.gpus, states, strict=True)
        ]
        heading = headings(columns)
        shown = self.window(table, rows - 1)
        above, below = self.hidden
        if (above or below) and self.frame is Frame.NONE:
            heading = spread(heading[:-1], _out_of_sight(snapshot, above, below), cells)
        return [heading, *shown]

    def headline(self, snapshot: Snapshot) -> Row:
        """How many, of which kind, and what is wrong with them."""
        gpus = snapshot.gpus
        if not gpus:
            return EMPTY
        names = {gpu.name for gpu in gpus if gpu.name}
        kind = clean(next(iter(names)).removeprefix("NVIDIA ")) if len(names) == 1 else "mixed kinds" if names else ""
        parts: list[Row] = [
            ((f"{len(gpus)} {glyphs.active().times} {kind}".strip() if kind else f"{len(gpus)}", "label"),)
        ]
        broken = [gpu for gpu in gpus if gpu.state in ("lost", "error")]
        slowed = [gpu for gpu in gpus if gpu.throttle]
        if broken:
            parts.append(((f"{glyphs.active().bad} {len(broken)} lost or failing", "bad"),))
        if slowed:
            parts.append(((f"{glyphs.active().warn} {len(slowed)} slowed down", "warn"),))
        above, below = self.hidden
        if above or below:
            parts.append(((f"{above + 1}-{len(gpus) - below} in sight", "accent"),))
        if snapshot.gpu_note:
            parts.append(((clean(snapshot.gpu_note), "warn"),))
        return join(parts)

    def status(self, snapshot: Snapshot) -> Row:
        """Source, and the age of the newest row; a row that is older says so itself."""
        times = [gpu.at_s for gpu in snapshot.gpus if gpu.at_s is not None]
        source = Source.SIMULATED if snapshot.simulated else Source.NVML
        return origin(source, max(times), snapshot) if times else EMPTY


def _out_of_sight(snapshot: Snapshot, above: int, below: int) -> Row:
    """How many rows are above and below, and how many GPUs are broken, for the heading of a panel without a title."""
    look = glyphs.active()
    broken = sum(gpu.state in ("lost", "error") for gpu in snapshot.gpus)
    hint: Row = ((f"{look.up}{above} {look.down}{below}", "accent"),)
    return (*hint, (f" {look.bad}{broken}", "bad")) if broken else hint


def wrap_reason(why: str, cells: int, rows: int) -> list[Row]:
    """A dash and a reason over as many rows as it takes."""
    if len(why) + 2 <= cells or rows < 2:
        return [nothing(why)]
    return wrap(f"{glyphs.active().dash} {clean(why)}", cells, "dim", rows)


def _cells(gpu: Gpu, snapshot: Snapshot, sizes: dict[str, int]) -> dict[str, Row]:
    role = "stale" if _stale(gpu, snapshot) or gpu.state == "lost" else "text"
    used = gpu.mem_used_bytes / gpu.mem_total_bytes if gpu.mem_used_bytes is not None and gpu.mem_total_bytes else None
    return {
        "index": ((f"{gpu.index}", "text"),),
        "rank": (
            (
                f"r{gpu.rank}" if gpu.rank is not None else glyphs.active().dash,
                "text" if gpu.rank is not None else "dim",
            ),
        ),
        "util_bar": meter(None if gpu.util_pct is None else gpu.util_pct / 100, sizes.get("util_bar", 0)),
        "util": _cell(gpu.util_pct, f"{number(gpu.util_pct)}%", role),
        "mem_bar": meter(used, sizes.get("mem_bar", 0), "warn" if used is not None and used > _FULL else "extend"),
        "mem": _pair(gib(gpu.mem_used_bytes), gib(gpu.mem_total_bytes), gpu.mem_used_bytes, role),
        "power": _pair(number(gpu.power_w), number(gpu.power_limit_w), gpu.power_w, role),
        "temp": _cell(gpu.temp_c, f"{number(gpu.temp_c)}{glyphs.active().degree}", _heat(gpu.temp_c, role)),
        "clock": _cell(gpu.sm_clock_mhz, number(gpu.sm_clock_mhz), role),
        "pcie": _pcie(gpu, role),
    }


def _cell(value: float | None, shown: str, role: str) -> Row:
    return ((shown, role),) if value is not None else ((glyphs.active().dash, "dim"),)


def _pair(value: str, limit: str, known: float | None, role: str) -> Row:
    """A value and what it is out of; one dash when the value is missing, none for a missing limit."""
    if known is None:
        return ((glyphs.active().dash, "dim"),)
    tail = "" if limit == glyphs.active().dash else f"/{limit}"
    return ((value, role), (tail, role))


def _heat(temp_c: float | None, role: str) -> str:
    if temp_c is None or temp_c < _HOT_C:
        return role
    return "bad" if temp_c >= _TOO_HOT_C else "warn"


def _pcie(gpu: Gpu, role: str) -> Row:
    if gpu.pcie_tx_bytes_s is None and gpu.pcie_rx_bytes_s is None:
        return ((glyphs.active().dash, "dim"),)
    return ((f"{rate(gpu.pcie_tx_bytes_s):>4}", role), ("/", role), (f"{rate(gpu.pcie_rx_bytes_s):>4}", role))


def _fitting(parts: list[Row], cells: int) -> Row:
    """The first words whatever it takes, the others where they fit whole."""
    first = parts[0] if width(parts[0]) < cells else fit(parts[0], cells - 1)
    return ((" ", "text"), *join_fitting([first, *parts[1:]], cells - 1))


def _stale(gpu: Gpu, snapshot: Snapshot) -> bool:
    old = age_s(gpu.at_s, snapshot)
    return old is not None and old > _STALE_AFTER_S


def _states(gpu: Gpu, snapshot: Snapshot) -> list[Row]:
    """Symbol and words, the most important first: state, errors, strangers, then what is not supported and what is ours."""
    strangers = [process for process in gpu.processes if not process.ours]
    ours = len(gpu.processes) - len(strangers)
    words = [
        _condition(gpu, snapshot),
        (f"Xid {gpu.xid} at {clock(gpu.xid_at_s)}" if gpu.xid is not None else "", "bad"),
        (f"ECC {gpu.ecc_uncorrected}" if gpu.ecc_uncorrected else "", "bad"),
        (_strangers(strangers) if strangers else "", "warn"),
        (clean(gpu.note) if gpu.state == "ok" else "", "dim"),
        (_unsupported(gpu) if gpu.state == "ok" else "", "dim"),
        (f"{ours} ours" if ours else "", "dim"),
    ]
    if strangers and words[0][1] == "good":
        words[0] = (f"{glyphs.active().warn} {words.pop(3)[0]}", "warn")
    return [(span,) for span in words if span[0]]


def _condition(gpu: Gpu, snapshot: Snapshot) -> Span:
    """The state in a symbol and words, and what slows the GPU down."""
    look = glyphs.active()
    if gpu.state == "lost":
        return (f"{look.bad} {_lost(gpu)}", "bad")
    if gpu.state == "error":
        return (f"{look.bad} {clean(gpu.note) or 'error'}", "bad")
    if gpu.state == "mig":
        return (f"{look.warn} MIG {clean(gpu.note)}".rstrip(), "warn")
    if _stale(gpu, snapshot):
        return (f"{look.warn} no reading for {age(age_s(gpu.at_s, snapshot))}", "warn")
    if gpu.throttle:
        return (f"{look.warn} {clean(', '.join(gpu.throttle))}", "warn")
    return (f"{look.ok} ok", "good")


def _unsupported(gpu: Gpu) -> str:
    """The first cell without a value and why."""
    if not gpu.missing:
        return ""
    cell, why = next(iter(gpu.missing.items()))
    more = f" +{len(gpu.missing) - 1}" if len(gpu.missing) > 1 else ""
    return f"{clean(cell.rsplit('_', 1)[0].replace('_', ' '))}: {clean(why)}{more}"


def _strangers(processes: list[GpuProcess]) -> str:
    """Processes that are not the engine's: the first one by pid, size and name."""
    first = processes[0]
    more = f" +{len(processes) - 1}" if len(processes) > 1 else ""
    size = f" {gib(first.used_bytes)}G" if first.used_bytes is not None else ""
    return f"stray {first.pid}{size}{more} {clean(first.name)}".rstrip()


def _lost(gpu: Gpu) -> str:
    """LOST, since when, and why: the note may already begin with the word."""
    note = clean(gpu.note)
    if note.upper().startswith("LOST"):
        return "LOST" + note[4:]
    since = f" {clock(gpu.at_s)}" if gpu.at_s is not None else ""
    return f"LOST{since} {note}".rstrip()
