"""``console check``: will this drafter fit, before anything is downloaded."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from console.drafters.subject import Subject
    from console.drafters.verdict import Judgement


@click.command("check")
@click.argument("drafter")
@click.option("--target", metavar="DIR|URL|REPO", default="", help="The target. [default: the running engine's]")
@click.option(
    "--running", metavar="DRAFTER", default="", help="Compare with this drafter. [default: the running engine's]"
)
@click.option("--algorithm", metavar="NAME", default="", help="The --speculative-algorithm it would run under.")
@click.option("--json", "as_json", is_flag=True, help="Nothing but JSON on stdout.")
@click.pass_obj
def command(obj: object, /, drafter: str, target: str, running: str, algorithm: str, as_json: bool) -> None:
    """Judge DRAFTER, a folder or a hub repository (org/name[@revision]), from its config and tensor header.

    Nothing is executed or unpickled, and nothing but headers is read over the network. Exit code 0: it can be served
    (restart, online-swap, same); 4: it cannot (incompatible, unreadable, convert, fine-tune-start); 1: a fact is missing.
    """
    from console.drafters import check as room

    judgement, subject = room.check(drafter, target=target or _running_url(obj), running=running, algorithm=algorithm)
    if as_json:
        click.echo(json.dumps(room.as_json(judgement, subject), indent=1, default=str))
    else:
        _print(judgement, subject)
    sys.exit(room.exit_code(judgement.verdict))


def _running_url(obj: object) -> str:
    """The URL of the engine that runs on this rig, if any."""
    from console.agent.client import connect
    from console.errors import ConsoleError

    try:
        return connect(getattr(obj, "rig", None)).snapshot().engine.url
    except ConsoleError:
        return ""


MARKS = {True: "ok", False: "NO", None: "? "}


def _print(judgement: Judgement, subject: Subject) -> None:
    """The verdict first, then the table, then what to do."""
    from console.drafters import check as room
    from console.drafters.header import gigabytes

    click.echo(f"{judgement.verdict.upper()}: {judgement.why}")
    against = subject.target.origin if subject.target else "no target known"
    size = f", {gigabytes(subject.drafter.weights.data_bytes)}" if subject.drafter.has_header else ""
    click.echo(f"  {_safe(subject.drafter.label)} ({subject.drafter.facts.kind}{size}) against {_safe(against)}")
    click.echo()
    rows = [
        (c.id, MARKS[c.ok] if c.ok is not False or c.severity == "block" else c.severity, c) for c in judgement.checks
    ]
    for identity, mark, item in rows:
        click.echo(f"  {identity:<4}{mark:<5}{_safe(item.message)}")
        if item.ok is False and item.reference is not None:
            click.echo(f"           drafter {_safe(str(item.drafter))}   reference {_safe(str(item.reference))}")
    for note in judgement.notes:
        click.echo(f"      note {_safe(note)}")
    if both := room.comparison(subject):
        shared = (
            "" if both.vocabulary_overlap is None else f", {both.vocabulary_overlap:.0%} of the draft vocabulary shared"
        )
        click.echo(f"  against the running drafter: {both.relation} ({both.why}{shared})")
        if both.head_note:
            click.echo(f"      note {both.head_note}")
    click.echo()
    click.echo(f"next: {judgement.todo}")


def _safe(text: str) -> str:
    """Names come from files and servers: control characters are shown, not sent to the terminal."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)
