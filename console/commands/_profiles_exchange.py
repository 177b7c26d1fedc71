"""``console profiles export|import|edit|apply``: to and from plain SGLang, the editor, the running engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from console.errors import ConsoleError, ExitCode

if TYPE_CHECKING:
    from console.cli import RigContext

JSON = click.option("--json", "as_json", is_flag=True, help="Nothing but JSON on stdout.")
TEXT_LIMIT_BYTES = 8 * 1024 * 1024


@click.command("export")
@click.argument("profile")
@click.option(
    "--format",
    "form",
    type=click.Choice(["shell", "bench"]),
    default="shell",
    show_default=True,
    help="shell: the plain SGLang command line. bench: measured cells as jsonl of SGLang's bench_speculative.py.",
)
@click.option(
    "--output", "-o", type=click.Path(path_type=Path, dir_okay=False), help="Write to this file. [default: stdout]"
)
def export_command(profile: str, form: str, output: Path | None) -> None:
    """Print PROFILE as what other tools understand; console profiles import reads both back."""
    from console import bench_jsonl
    from console.engine import commandline
    from profiles import store

    found = store.load(profile)
    if form == "shell":
        text = commandline.export(found)
    else:
        measured: Any = found.measured.get("calibrate", {})
        spec = found.speculation
        width = spec.draft_tokens if (spec.topk or 1) > 1 else None
        text = "\n".join(bench_jsonl.lines(measured, topk=spec.topk, width=width)) + "\n"
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConsoleError(f"cannot write {output}", why=error.strerror or str(error)) from error


@click.command("import")
@click.argument("source", metavar="FILE|-")
@click.option("--name", default="", help="Name of the profile; with jsonl, the profile that gets the measurements.")
@click.option("--force", is_flag=True, help="Replace a profile of yours that has the name.")
@JSON
def import_command(source: str, name: str, force: bool, as_json: bool) -> None:
    """Make a profile of a command line that starts SGLang, or take in the jsonl of SGLang's bench_speculative.py.

    FILE holds either; - reads standard input. What a command line cannot say keeps its default; a key is never taken in.
    """
    from console import bench_jsonl
    from profiles import store

    text = _text(source)
    notes: tuple[str, ...] = ()
    if bench_jsonl.looks_like_jsonl(text):
        path = _measurements(text, name)
    else:
        from console.engine import commandline

        imported = commandline.imported(text, name)
        notes, name = imported.notes, imported.profile.name
        path = store.save(imported.profile, overwrite=force)
    if as_json:
        import json

        click.echo(json.dumps({"name": name, "path": str(path), "notes": list(notes)}))
        return
    for note in notes:
        click.echo(f"note: {note}", err=True)
    click.echo(str(path))


def _measurements(text: str, name: str) -> Path:
    """Put imported cells into a profile."""
    from datetime import UTC, datetime

    import msgspec

    from console import bench_jsonl
    from profiles import store

    cells = bench_jsonl.cells(text)
    if not name:
        raise ConsoleError(
            "these are measurements: which profile gets them?", todo="name it with --name", code=ExitCode.USAGE
        )
    found = store.entry(name)
    summary = bench_jsonl.summary(cells, datetime.now(UTC).isoformat(timespec="seconds"))
    measured = {**found.profile.measured, "calibrate": summary}
    changed = msgspec.structs.replace(found.profile, measured=measured)
    to = found.path if found.origin == store.FILE else None
    return store.save(changed, based_on=found.profile, source=found.path, to=to)


def _text(source: str) -> str:
    try:
        raw = sys.stdin.buffer.read(TEXT_LIMIT_BYTES + 1) if source == "-" else _head(Path(source).expanduser())
        if len(raw) > TEXT_LIMIT_BYTES:
            raise ConsoleError(f"{source} is too large", why=f"more than {TEXT_LIMIT_BYTES} bytes", code=ExitCode.USAGE)
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise ConsoleError(f"cannot read {source}", why=error.strerror or str(error), code=ExitCode.USAGE) from error
    except UnicodeDecodeError as error:
        raise ConsoleError(f"{source} is no text", why="it is not UTF-8", code=ExitCode.USAGE) from error


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(TEXT_LIMIT_BYTES + 1)


@click.command("edit")
@click.argument("profile")
def edit_command(profile: str) -> None:
    """Edit PROFILE in $VISUAL or $EDITOR; it is checked on return, and nothing is lost when it is not valid.

    Editing a built-in one makes a copy of yours that hides it.
    """
    from profiles import draft

    editor = draft.editor()
    work = draft.begin(profile)
    if work.resumed:
        click.echo(f"going on with the text that was left in {work.path}", err=True)
    while True:
        _edit(editor, work.path)
        try:
            path = draft.finish(work)
        except ConsoleError as error:
            if not sys.stdin.isatty():
                raise
            click.echo(f"console: {error.line}", err=True)
            if not click.confirm("edit again?", default=True, err=True):
                sys.exit(ExitCode.USAGE)
        else:
            click.echo("nothing was changed" if path is None else str(path), err=path is None)
            return


def _edit(editor: list[str], path: Path) -> None:
    try:
        code = subprocess.run([*editor, str(path)], check=False).returncode
    except OSError as error:
        raise ConsoleError(f"cannot start {editor[0]}", why=error.strerror or str(error), todo="set EDITOR") from error
    if code:
        raise ConsoleError(f"{editor[0]} ended with code {code}", todo=f"nothing is lost: your text is in {path}")


@click.command("apply")
@click.argument("profile")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Nothing but the operation as JSON on stdout.")
@click.pass_obj
def apply_command(obj: RigContext, /, profile: str, yes: bool, as_json: bool) -> None:
    """Make PROFILE the one that runs: live where all of it can be, else by one restart. The preview says of each key which."""
    from console.commands import _rig
    from profiles import store

    store.load(profile)
    name = str(Path(profile).resolve()) if profile.endswith(store.SUFFIX) else profile
    _rig.change(_rig.connect(obj), "apply", {"profile": name}, yes=yes, as_json=as_json, refused_code=ExitCode.FAILED)
