"""What the Drafters screen writes: the list's columns, one drafter in full, downloads. Pure functions of answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from console.screens.choices import Choice
from panels.rows import Row
from panels.text import clean

if TYPE_CHECKING:
    from console.agent.pulls import Pull
    from console.agent.shelf import Item

VERDICT_ROLES = {
    "same": "good",
    "online-swap": "good",
    "restart": "good",
    "simulated": "text",
    "fine-tune-start": "warn",
    "convert": "warn",
    "unknown": "warn",
    "incompatible": "bad",
    "unreadable": "bad",
}
COLUMNS = ("drafter", "verdict", "here", "size", "revision", "licence")
"""The list's columns, the most important first: a narrow terminal has the first ones."""
_WIDE = {120: 6, 100: 5, 0: 4}
"""How many of them fit from which width on."""
_MARK = {True: "ok", False: "NO", None: "?"}
_NAME_CELLS = 34


def columns(width: int) -> tuple[str, ...]:
    """Headings for a terminal of this width."""
    return COLUMNS[: next(count for least, count in _WIDE.items() if width >= least)]


def size(count: float | None) -> str:
    """Bytes in decimal units, as the hub prints them; a dash when it is not known."""
    if count is None:
        return "-"
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.2f} {unit}"
    return f"{count:.0f} B"


def short(name: str) -> str:
    """A folder by its last part, a repository without the revision."""
    if name.startswith("/"):
        return name.rstrip("/").rpartition("/")[2] or name
    return name.partition("@")[0]


def verdict(item: Item) -> str:
    """In one or two words."""
    if item.running:
        return "drafts now"
    return str(item.verdict) or "not here"


def record(item: Item) -> str:
    """What it did on this rig: accept_len and speed of one stream at its best."""
    if item.record is None:
        return "-"
    best = item.record.best
    speed = "" if best.tok_s is None else f" {best.tok_s:.0f} t/s"
    return f"{best.accept_len:.2f}{speed}"


def choice(item: Item, width: int) -> Choice:
    """One row of the list."""
    cells = (
        short(item.name),
        verdict(item),
        record(item),
        size(item.bytes),
        item.revision[:10] or "-",
        item.licence or "-",
    )
    name = cells[0] if len(cells[0]) <= _NAME_CELLS or width >= 120 else f"{cells[0][:15]}...{cells[0][-16:]}"
    role = "bad" if VERDICT_ROLES.get(str(item.verdict)) == "bad" else "text"
    return Choice(item.name, (name, *cells[1 : len(columns(width))]), role, "")


def about(item: Item) -> tuple[str, str]:
    """The verdict's reason and the last record in full, with its role."""
    lines = [f"{verdict(item)}: {item.why}" if item.why else verdict(item)]
    if item.path and item.path != item.name:
        lines.append(item.path)
    elif item.path:
        lines[0] = f"{item.path}  {lines[0]}"
    if item.record is not None:
        last = item.record.last
        stamp = _day(last.at_s)
        lines.append(
            f"last {stamp}: accept_len {last.accept_len:.2f}"
            + (f", {last.tok_s:.1f} tok/s a stream" if last.tok_s is not None else "")
            + (f" at depth {last.depth:.0f}" if last.depth is not None else "")
            + f", {last.outcome or 'served'}"
            + (f", fingerprint {last.fingerprint}" if last.fingerprint else "")
        )
    return "\n".join(lines), VERDICT_ROLES.get(str(item.verdict), "text")


def _day(at_s: float) -> str:
    import time

    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_s))


# ------------------------------------------------------------------------------------------------ one in full


def detail(answer: Mapping[str, Any], cells: int) -> list[Row]:
    """Checks with both values, then the files, then the comparison with the drafter that runs."""
    rows: list[Row] = []
    if todo := str(answer.get("todo") or ""):
        rows.append((("next  ", "label"), (clean(todo), "text")))
    rows += _checks(answer.get("checks") or (), cells)
    rows += _files(answer.get("drafter") or {})
    rows += _comparison(answer.get("comparison") or {})
    rows += [(("note  ", "label"), (clean(str(note)), "text")) for note in answer.get("notes") or ()]
    return [((" ", "text"), *row) for row in rows]


def _checks(checks: Sequence[Mapping[str, Any]], cells: int) -> list[Row]:
    if not checks:
        return []
    value = max(10, min(26, (cells - 46) // 2))
    rows: list[Row] = [((f"{'check':<10}{'drafter':<{value}}  {'reference':<{value}}  what", "label"),)]
    for check in sorted(checks, key=_weight):
        ok, severity = check.get("ok"), str(check.get("severity", ""))
        blocks = severity == "block"
        mark = _MARK[ok] if ok is not False or blocks else severity
        role = "good" if ok else ("bad" if ok is False and blocks else "warn")
        both = f"{_value(check.get('drafter'), value)}  {_value(check.get('reference'), value)}  "
        label = f"{check.get('id', '')!s:<4}"
        rows.append(
            ((label, "label"), (f"{mark:<6}", role), (both, "value"), (clean(str(check.get("message", ""))), "text"))
        )
    return rows


def _weight(check: Mapping[str, Any]) -> int:
    """What decides stands first: failed, doubtful, unknown, good."""
    if check.get("ok") is False:
        return 0 if check.get("severity") == "block" else 1
    return 3 if check.get("ok") else 2


def _value(value: object, cells: int) -> str:
    text = "-" if value is None else clean(str(value))
    return f"{text if len(text) <= cells else text[: cells - 3] + '...':<{cells}}"


def _files(drafter: Mapping[str, Any]) -> list[Row]:
    """The folder as a tree."""
    files = sorted(drafter.get("files") or (), key=lambda file: str(file.get("name")))
    if not files:
        return []
    rows: list[Row] = [(("files", "label"),)]
    before: tuple[str, ...] = ()
    for file in files:
        *folders, name = clean(str(file.get("name"))).split("/")
        for depth, part in enumerate(folders):
            if tuple(folders[: depth + 1]) != before[: depth + 1]:
                rows.append((("  " * (depth + 1) + f"{part}/", "text"),))
        before = tuple(folders)
        rows.append((("  " * (len(folders) + 1) + f"{name}  ", "text"), (size(file.get("bytes")), "dim")))
    return rows


def _comparison(found: Mapping[str, Any]) -> list[Row]:
    """What it has in common with the drafter that runs."""
    if not found:
        return []
    shared = found.get("vocabulary_overlap")
    more = "" if shared is None else f"; {shared:.0%} of the draft vocabulary shared"
    text = f"{found.get('relation', '')}: {found.get('why', '')}{more}"
    rows: list[Row] = [(("against the running drafter  ", "label"), (clean(text), "text"))]
    if note := found.get("head_note"):
        rows.append((("  ", "text"), (clean(str(note)), "warn")))
    for row in found.get("rows") or ():
        distance = row.get("distance")
        far = "-" if distance is None else f"{distance:.3f}"
        same = row.get("ours") == row.get("theirs")
        shape = (
            clean(str(row.get("ours"))) if same else f"{clean(str(row.get('ours')))} / {clean(str(row.get('theirs')))}"
        )
        rows.append(((f"  {clean(str(row.get('name'))):<44} {far:>7}  ", "text"), (shape, "dim" if same else "warn")))
    return rows


# ------------------------------------------------------------------------------------------------ downloads


def pull_line(pull: Pull) -> tuple[str, str]:
    """A download in one line, and its role."""
    if pull.state != "running":
        return f"{pull.repository} {pull.state}: {pull.message}", "bad" if pull.state == "failed" else "text"
    if not pull.bytes_total:
        return f"{pull.repository}: asking the hub", "accent"
    share = pull.bytes_done / pull.bytes_total
    filled = round(share * 20)
    bar = "#" * filled + "-" * (20 - filled)
    rate = "" if not pull.rate_bytes_s else f" at {size(pull.rate_bytes_s)}/s"
    left = "" if pull.eta_s is None else f", {pull.eta_s:.0f} s left"
    return f"{pull.repository} [{bar}] {share:4.0%} of {size(pull.bytes_total)}{rate}{left}", "accent"
