"""``console doctor``: what a launch on this box would run into."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click
import msgspec

from console.errors import ExitCode

if TYPE_CHECKING:
    from console.doctor.finding import Finding
    from profiles.schema import Profile

MARKS = {"ok": "ok  ", "warn": "WARN", "fail": "FAIL"}
COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command("doctor")
@click.option("--profile", "profile_name", metavar="PROFILE", help="Check for a launch of this profile.")
@click.option("--json", "as_json", is_flag=True, help="Findings as JSON on stdout.")
def command(profile_name: str | None, *, as_json: bool) -> None:
    """Check this box: Python, SGLang, NVML, terminal, disk, ports, permissions.

    Each finding is one line with what to do about it. Exit code 4 when something would prevent a launch, 0 otherwise.
    """
    from console.doctor.checkup import checkup, is_healthy

    profile = load_profile(profile_name)
    findings = []
    for finding in checkup(profile):
        findings.append(finding)
        if not as_json:
            click.echo(line(finding))
    healthy = is_healthy(findings)
    if as_json:
        answer: dict[str, Any] = {"healthy": healthy, "profile": profile.name, "findings": findings}
        click.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())
    elif healthy:
        click.echo("nothing here would prevent a launch", err=True)
    else:
        click.echo("a launch would fail on this box: see FAIL above", err=True)
    if not healthy:
        sys.exit(ExitCode.NO)


def load_profile(name: str | None) -> Profile:
    """The named profile, else the defaults of every profile."""
    from profiles.schema import Profile

    if name is None:
        return Profile(name="default")
    from profiles.store import load

    return load(name)


def line(finding: Finding) -> str:
    """A finding as text, fit for any locale."""
    mark = MARKS[finding.status]
    if not os.environ.get("NO_COLOR"):
        mark = click.style(mark, fg=COLOURS[finding.status])
    todo = f" - {finding.todo}" if finding.todo else ""
    text = f"{mark} {finding.id}: {finding.message}{todo}"
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    return text.encode(encoding, errors="backslashreplace").decode(encoding)
