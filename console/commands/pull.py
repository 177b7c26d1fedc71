"""``console pull``: a drafter from the hub, resumable and proven."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from console.errors import ConsoleError, ExitCode

if TYPE_CHECKING:
    from console.drafters.download import Progress


@click.command("pull")
@click.argument("repository", metavar="REPO[@REV]")
@click.option("--all", "everything", is_flag=True, help="Also optimizer states and .bin files.")
@click.option(
    "--pin", metavar="PROFILE", default="", help="Then write the revision into this profile, which names REPO."
)
@click.option("--dry-run", is_flag=True, help="Say what would be fetched, fetch nothing.")
@click.option("--json", "as_json", is_flag=True, help="Nothing but JSON on stdout.")
def command(repository: str, everything: bool, pin: str, dry_run: bool, as_json: bool) -> None:
    """Download REPO at REV into the hub cache.

    Goes on where an interrupted pull stopped, checks the free space first, and proves size and hash of every file before it is
    called done. Training states and pickled weights are left out. The token comes from HF_TOKEN or `hf auth login`.
    """
    from console.drafters.download import check_space, plan_pull, pull
    from console.drafters.header import gigabytes
    from console.drafters.source import REPOSITORY

    if not REPOSITORY.fullmatch(repository):
        raise ConsoleError(
            f"{repository!r} is no hub repository",
            todo="write it as org/name or org/name@revision",
            code=ExitCode.USAGE,
        )
    name, _, revision = repository.partition("@")
    if pin:
        _check_pin(pin, name)
    plan = plan_pull(name, revision, everything=everything)
    left_out = f"; left out: {', '.join(plan.skipped[:4])}" if plan.skipped else ""
    size = f"{gigabytes(plan.bytes_total)}, {gigabytes(plan.bytes_to_fetch)} to fetch"
    click.echo(f"{name}@{plan.revision[:12]}: {len(plan.files)} files, {size}{left_out}", err=True)
    check_space(plan)
    path = plan.snapshot
    if not dry_run:
        path = _interruptible(lambda cancel: pull(plan, _reporter(), cancel))
    written = _pin(pin, name, plan.revision) if pin and not dry_run else ""
    if as_json:
        answer = {
            "repository": name,
            "revision": plan.revision,
            "path": str(path),
            "bytes": plan.bytes_total,
            "files": [file.name for file in plan.files],
            "skipped": list(plan.skipped),
            "complete": not dry_run,
            "pinned": written or None,
        }
        click.echo(json.dumps(answer, indent=1))
    elif not dry_run:
        click.echo(str(path))


def _check_pin(profile: str, repository: str) -> None:
    """Say before the download what would go wrong after it."""
    from profiles import store
    from profiles.pin import pinned

    pinned(store.load(profile), repository, "")


def _pin(profile: str, repository: str, revision: str) -> str:
    """Write it, and say where."""
    from profiles.pin import pin

    path = pin(profile, repository, revision)
    said = (
        f"{repository} is pinned to {revision[:12]} in {path}"
        if path
        else f"{profile} is pinned to {revision[:12]} already"
    )
    click.echo(said, err=True)
    return str(path or profile)


def _interruptible(work: Callable[[threading.Event], Path]) -> Path:
    """Ctrl-C asks the transfer to stop at the next piece, so that what came is kept whole."""
    cancel = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: cancel.set())
    try:
        return work(cancel)
    finally:
        signal.signal(signal.SIGINT, before)


def _reporter() -> Callable[[Progress], None]:
    """A line that rewrites itself on a terminal, one line each tenth otherwise."""
    from console.drafters.header import gigabytes

    live = sys.stderr.isatty()
    last = -1

    def report(progress: Progress) -> None:
        nonlocal last
        share = progress.bytes_done / progress.bytes_total if progress.bytes_total else 1.0
        tenth = int(share * 10)
        if not live and tenth == last:
            return
        last = tenth
        eta = "" if progress.eta_s is None else f", {progress.eta_s:.0f} s left"
        text = f"{share:4.0%} of {gigabytes(progress.bytes_total)} at {gigabytes(int(progress.rate_bytes_s))}/s{eta}"
        click.echo(f"\r{text:<60}" if live else text, err=True, nl=not live or share >= 1)

    return report
