"""The past of a rig as plain text: a line an entry, the newest last; a crash report in full."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from console.agent.crash_report import CrashReport
from console.agent.ports import span
from console.rig import Gpu

GIB = 2**30
Row = Mapping[str, Any]


def when(at_s: float | None) -> str:
    """Day and time in the operator's zone."""
    if at_s is None:
        return "-"
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))
    except (OverflowError, ValueError, OSError):
        return "-"


def operation(row: Row) -> Iterable[str]:
    """Who, what, how it ended, seconds; below it what was before and after, and the outcome."""
    begun, ended = row.get("started_at_s"), row.get("ended_at_s")
    took = span(ended - begun) if begun is not None and ended is not None else "not ended"
    title = row.get("title") or row.get("kind", "-")
    state, who = row.get("state", "running"), row.get("by") or "-"
    yield f"{when(begun)}  {state:<11} {took:>10}  {title}  by {who}  [{row.get('id', '-')}]"
    if row.get("before") or row.get("after"):
        yield f"    {row.get('before') or '-'} -> {row.get('after') or '-'}"
    if row.get("message"):
        yield f"    {row['message']}"


def event(row: Row) -> Iterable[str]:
    """When, how bad, what."""
    yield f"{when(row.get('at_s'))}  {row.get('level', '-'):<5} {row.get('text', '-')}"


def start(row: Row) -> Iterable[str]:
    """Profile, how long, the longest phases."""
    result = "ready" if row.get("ready") else "failed"
    phases = sorted(row.get("phases", {}).items(), key=lambda item: -item[1])[:3]
    longest = ", ".join(f"{name} {span(seconds)}" for name, seconds in phases)
    took = span(row.get("seconds", 0.0))
    yield f"{when(row.get('at_s'))}  {result:<6} {took:>10}  {row.get('profile', '-')}" + (
        f"  ({longest})" if longest else ""
    )


def crash(row: Row) -> Iterable[str]:
    """How it ended and why."""
    cause = row.get("cause", {})
    ranks = f" on {', '.join(cause['ranks'])}" if cause.get("ranks") else ""
    yield f"{when(row.get('at_s'))}  {_ended(row)}  {row.get('configuration') or row.get('profile') or '-'}  [{row.get('id')}]"
    yield f"    {cause.get('message', '-')}{ranks}"


def run(row: Row) -> Iterable[str]:
    """A baseline or calibration of the ledger: its cells."""
    result = row.get("result", {})
    cells = result.get("cells", ())
    speeds = ", ".join(
        f"depth {cell['depth']} x{cell['concurrency']}: {cell['total_tok_s']['median']:.1f} tok/s" for cell in cells[:4]
    )
    more = f", and {len(cells) - 4} more" if len(cells) > 4 else ""
    marks = (", simulated" if result.get("simulated") else "") + (", acceptance forced" if result.get("dry") else "")
    what, who = f"{row.get('kind', '-')}{marks}", row.get("by") or "-"
    yield f"{when(result.get('at_s'))}  {what}  {row.get('profile', '-')}  by {who}  [{row.get('id')}]"
    yield f"    {speeds}{more}" if cells else "    no cell was measured"


LINES: dict[str, Callable[[Row], Iterable[str]]] = {
    "operations": operation,
    "events": event,
    "starts": start,
    "crashes": crash,
    "runs": run,
}
HEADINGS = {
    "operations": "Operations",
    "events": "Events",
    "starts": "Starts of the engine",
    "crashes": "Crash reports",
    "runs": "Baselines and calibrations",
}


def _ended(row: Row) -> str:
    if row.get("signal"):
        return f"killed by {row['signal']}"
    code = row.get("exit_code")
    return "exit code not known" if code is None else f"exit code {code}"


def report(found: CrashReport) -> Iterable[str]:
    """A crash report in full."""
    if found.simulated:
        yield "SIMULATED"
    lived = found.at_s - found.started_at_s if found.started_at_s is not None else None
    ready = "" if found.ready_at_s is not None else ", before its first token"
    yield f"crash      {found.id}  rig {found.rig}  {when(found.at_s)}"
    yield f"engine     {found.configuration or '-'}  pid {found.pid or '-'}  {found.url}  started by {found.by or '-'}"
    how = _ended({"signal": found.signal, "exit_code": found.exit_code})
    yield f"ended      {how}" + (f" after {span(lived)}{ready}" if lived is not None else "")
    for label, cause in (("cause", found.cause), *(("also", entry) for entry in found.more_causes)):
        ranks = f" ({', '.join(cause.ranks)})" if cause.ranks else ""
        yield f"{label:<10} {cause.message}{ranks}"
        if cause.advice:
            yield f"to do      {cause.advice}"
    if found.note:
        yield f"note       {found.note}"
    yield from _last_seen(found)
    yield from _box(found)
    yield f"changed    {'nothing within the hour before' if not found.operations else 'within the hour before:'}"
    for entry in found.operations:
        outcome = f": {entry.state.value}" + (f", {entry.message}" if entry.message else "")
        yield f"           {when(entry.started_at_s)}  {entry.title or entry.kind} by {entry.by or '-'}{outcome}"
    if found.versions:
        yield "versions   " + "  ".join(f"{name} {version}" for name, version in found.versions.items())
    if found.command:
        yield f"command    {found.command}"
    yield f"log        {found.log_path or '-'}"
    yield from (f"  | {line}" for line in found.log_lines)


def _last_seen(found: CrashReport) -> Iterable[str]:
    seen = found.last_seen
    if seen is None:
        return
    figures = (
        ("running", seen.running, ".0f"),
        ("queued", seen.queued, ".0f"),
        ("tok/s", seen.tok_s, ".1f"),
        ("accept_len", seen.accept_len, ".2f"),
        ("depth", seen.depth, ".0f"),
        ("cycle ms", seen.cycle_ms, ".1f"),
        ("KV", seen.token_usage, ".0%"),
    )
    told = "  ".join(f"{name} {value:{style}}" for name, value, style in figures if value is not None)
    yield f"last seen  {span(found.at_s - seen.at_s)} before: {told or 'no figure'}"


def _box(found: CrashReport) -> Iterable[str]:
    for alarm in found.alarms:
        yield f"alarm      {alarm.text}"
    for line in found.xids:
        yield f"Xid        {line}"
    if found.gpu_note:
        yield f"GPUs       {found.gpu_note}"
    for gpu in found.gpus:
        yield f"GPU {gpu.index:<6} {_gpu(gpu)}"


def _gpu(gpu: Gpu) -> str:
    parts = [gpu.name or "-", gpu.state + (f" {gpu.note}" if gpu.note else "")]
    if gpu.mem_used_bytes is not None and gpu.mem_total_bytes is not None:
        parts.append(f"{gpu.mem_used_bytes / GIB:.1f} of {gpu.mem_total_bytes / GIB:.1f} GiB")
    parts += [f"{gpu.temp_c:.0f} C"] if gpu.temp_c is not None else []
    parts += [f"{gpu.power_w:.0f} W"] if gpu.power_w is not None else []
    parts += [f"limited by {', '.join(gpu.throttle)}"] if gpu.throttle else []
    return "  ".join(parts)
