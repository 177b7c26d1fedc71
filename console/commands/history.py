"""``console history``: what was done to this rig and what befell it, with or without an agent."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from console.commands._times import SPAN
from console.errors import ConsoleError, ExitCode

if TYPE_CHECKING:
    from console.agent.past import Past
    from console.cli import RigContext
    from console.paths import RigPaths

SHOWN = {"operations": 50, "events": 40, "starts": 20, "crashes": 20, "runs": 20}
"""The newest entries that are printed of each kind when all kinds are."""
KINDS = tuple(SHOWN)


@click.group("history", invoke_without_command=True)
@click.option("--since", type=SPAN, default="24h", show_default=True, help="How far back: 90s, 30m, 2h, 7d.")
@click.option("--kind", type=click.Choice(KINDS), multiple=True, help="Only these; may be given several times.")
@click.option("--limit", type=click.IntRange(1, 100_000), help="The newest entries of each kind.")
@click.option("--json", "as_json", is_flag=True, help="Nothing but JSON on stdout.")
@click.pass_context
def command(ctx: click.Context, /, since: float, kind: Sequence[str], limit: int | None, as_json: bool) -> None:
    """List operations (who, what, before, after, how it ended), events, starts, crash reports, baselines and calibrations.

    Reads the rig's files, so it works while no agent runs. Exit code 1: something of it is damaged; 3: there is no such rig.
    """
    if ctx.invoked_subcommand is not None:
        return
    from console.agent import past

    paths = rig_with_a_past(ctx.obj)
    now_s = time.time()
    kinds = [name for name in KINDS if not kind or name in kind]
    found = past.gather(paths, now_s - since, now_s + 60.0, kinds, limit=limit or past.MOST_ROWS)
    if as_json:
        _print_json(paths, found, now_s - since)
    else:
        _print(paths, found, now_s - since, limit, one_kind=len(kinds) == 1)
    sys.exit(ExitCode.FAILED if found.damaged else ExitCode.OK)


@command.command("show")
@click.argument("entry_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Nothing but JSON on stdout.")
@click.pass_obj
def show(obj: RigContext, /, entry_id: str, as_json: bool) -> None:
    """Show one crash report, operation, or run in full; the beginning of its ID is enough."""
    import msgspec

    from console.agent import crash_report
    from console.commands import _past_text

    paths = rig_with_a_past(obj)
    kind, row = _entry(paths, entry_id)
    if as_json:
        click.echo(msgspec.json.encode({"rig": paths.name, "kind": kind, "entry": row}).decode())
    elif kind == "crashes":
        _echo(_past_text.report(msgspec.convert(row, crash_report.CrashReport)))
    else:
        _echo(_past_text.LINES[kind](row))
        for step in row.get("steps", ()):
            took = "" if step.get("seconds") is None else f"{step['seconds']:.1f} s"
            _echo([f"    {step.get('state', 'waiting'):<8} {took:>8}  {step['name']}  {step.get('detail', '')}"])
        if kind == "runs":
            _echo([msgspec.json.format(msgspec.json.encode(row["result"])).decode()], whole=True)


def _entry(paths: RigPaths, entry_id: str) -> tuple[str, dict[str, Any]]:
    """Kind and row of the one entry whose id is, or begins with, ``entry_id``.

    Raises:
        ConsoleError: none is, or several.
    """
    from console.agent import past

    found = past.gather(paths, 0.0, float("inf"), ("crashes", "operations", "runs"), limit=100_000)
    alike = [(kind, row) for kind, rows in found.rows.items() for row in rows if str(row.get("id", "")) == entry_id]
    if not alike:
        begins = [(kind, row) for kind, rows in found.rows.items() for row in rows]
        alike = [(kind, row) for kind, row in begins if entry_id and str(row.get("id", "")).startswith(entry_id)]
    if len(alike) == 1:
        return alike[0]
    if alike:
        which = ", ".join(str(row["id"]) for _, row in alike[:5]) + (" ..." if len(alike) > 5 else "")
        raise ConsoleError(f"which entry {entry_id!r}?", why=f"{which} begin so", code=ExitCode.USAGE)
    raise ConsoleError(
        f"no entry {entry_id!r} in the history of rig {paths.name}",
        why="; ".join(found.notes),
        todo="console history lists them, --since 30d further back",
        code=ExitCode.USAGE,
    )


def rig_with_a_past(obj: RigContext) -> RigPaths:
    """The rig that is meant: named, or running, or the only one that has files.

    Raises:
        ConsoleError: there is no such rig (exit code 3).
    """
    from console.agent.client import DEFAULT_RIG, choose, running_rigs
    from console.paths import RigPaths, rig_names

    names = rig_names()
    name = choose(obj.rig)
    if obj.rig is None and name not in names and len(names) == 1 and not running_rigs():
        name = names[0]
    if name not in names:
        others = f"there are: {', '.join(names)}" if names else "nothing has been run here yet"
        todo = "name one with --rig" if names else "console run PROFILE, or console demo"
        what = f"no rig {name}" if obj.rig or name != DEFAULT_RIG else "rig default has no history"
        raise ConsoleError(what, why=others, todo=todo, code=ExitCode.UNREACHABLE)
    return RigPaths(name)


def _print_json(paths: RigPaths, found: Past, since_s: float) -> None:
    import msgspec

    document = {"rig": paths.name, "since_s": since_s, **found.rows, "notes": found.notes}
    click.echo(msgspec.json.encode(document).decode())


def _print(paths: RigPaths, found: Past, since_s: float, limit: int | None, *, one_kind: bool) -> None:
    from console.agent import past
    from console.commands import _past_text

    for note in found.notes:
        _echo([note], err=True)
    for kind, rows in found.rows.items():
        if not rows and not one_kind:
            continue
        most = limit or (len(rows) if one_kind else SHOWN[kind])
        _echo([f"{_past_text.HEADINGS[kind]} of rig {paths.name} since {_past_text.when(since_s)}"])
        if len(rows) > most:
            _echo([f"  {len(rows) - most} earlier ones are left out: --kind {kind} shows all"])
        for row in rows[-most:]:
            _echo(f"  {line}" for line in _past_text.LINES[kind](row))
        click.echo()
    if found.empty:
        newest = past.newest_at_s(paths, tuple(found.rows))
        older = f"; the newest entry is of {_past_text.when(newest)}: --since goes further back" if newest else ""
        _echo([f"nothing since {_past_text.when(since_s)}{older}"])


def _echo(lines: Any, *, err: bool = False, whole: bool = False) -> None:
    from console.engine.logtext import sanitize

    for line in lines:
        click.echo(line if whole else sanitize(line), err=err)
