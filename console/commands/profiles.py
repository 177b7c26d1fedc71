"""``console profiles``: list, show, save and compare tuning profiles."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from console.commands import _profiles_exchange
from console.errors import ConsoleError, ExitCode

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from console.cli import RigContext
    from profiles.schema import Profile

JSON = click.option("--json", "as_json", is_flag=True, help="Nothing but JSON on stdout.")


def complete_names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Profile names for the shell; nothing is read but the folders."""
    from click.shell_completion import CompletionItem

    from profiles import store

    return [CompletionItem(name) for name in store.names() if name.startswith(incomplete)]


@click.group("profiles")
def command() -> None:
    """List, show and manage tuning profiles.

    Yours are TOML files in a folder of your own (console profiles path); the built-in ones are never changed: saving one
    under its name makes a copy of yours that hides it. Wherever a PROFILE is named, a path to a .toml file will do.
    """


for _other in (
    _profiles_exchange.export_command,
    _profiles_exchange.import_command,
    _profiles_exchange.edit_command,
    _profiles_exchange.apply_command,
):
    command.add_command(_other)


@command.command("list")
@JSON
def list_command(as_json: bool) -> None:
    """List the profiles, and the files that should have been one."""
    from profiles import store

    found = store.listing()
    if as_json:
        _print_json(
            {
                "profiles": [
                    {
                        "name": item.name,
                        "description": item.profile.description,
                        "origin": item.origin,
                        "hides_builtin": item.hides_builtin,
                        "path": str(item.path),
                    }
                    for item in found.entries
                ],
                "problems": [{"path": str(item.path), "message": item.message} for item in found.problems],
            }
        )
        return
    width = max((len(item.name) for item in found.entries), default=4)
    for item in found.entries:
        origin = f"{item.origin}, hides the built-in" if item.hides_builtin else item.origin
        click.echo(f"{item.name:<{width}}  {_safe(item.profile.description)} ({origin})")
    for problem in found.problems:
        click.echo(f"console: {_safe(problem.message)}", err=True)


@command.command("show")
@click.argument("profile", shell_complete=complete_names)
@JSON
def show_command(profile: str, as_json: bool) -> None:
    """Print PROFILE: the file as it stands, or with --json every key, defaults included."""
    from profiles import keys, read, store

    found = store.entry(profile)
    if as_json:
        _print_json(keys.nested(found.profile))
        return
    click.echo(f"# {_safe(str(found.path))} ({found.origin})", err=True)
    text = read.text_of(read.read_bytes(found.path), str(found.path))
    click.echo("\n".join(_safe(line) for line in text.splitlines()))


@command.command("path")
@click.argument("profile", required=False, shell_complete=complete_names)
@JSON
def path_command(profile: str | None, as_json: bool) -> None:
    """Print where PROFILE is, or without one the folder of your profiles."""
    from profiles import store

    path, origin = (store.folder(), store.OWN) if profile is None else store.locate(profile)
    if as_json:
        _print_json({"path": str(path), "origin": origin})
    else:
        click.echo(str(path))


@command.command("diff")
@click.argument("a", shell_complete=complete_names)
@click.argument("b", required=False, shell_complete=complete_names)
@click.option("--running", is_flag=True, help="Compare A with what runs now, live changes included.")
@JSON
@click.pass_obj
def diff_command(obj: RigContext, /, a: str, b: str | None, running: bool, as_json: bool) -> None:
    """Print the keys in which profile A differs from profile B, or from the running engine; a dash is the default."""
    from profiles import store

    if running is (b is not None):
        raise ConsoleError("compare A with what?", todo="name a second profile, or give --running", code=ExitCode.USAGE)
    left = store.load(a)
    right = store.load(b) if b is not None else _running(obj)
    b = b or "what runs"
    found = list(store.differences(left, right))
    if as_json:
        rows = [{"key": key, "a": one, "b": other} for key, one, other in found]
        _print_json({"a": left.name, "b": right.name, "running": running, "same": not found, "differences": rows})
        return
    if not found:
        click.echo(f"{a} and {b} are the same", err=True)
    width = max((len(key) for key, _, _ in found), default=0)
    for key, one, other in found:
        click.echo(f"{key:<{width}}  {_shown(one)} -> {_shown(other)}")


@command.command("save")
@click.argument("name", shell_complete=complete_names)
@click.argument("assignments", metavar="[KEY=VALUE]...", nargs=-1)
@click.option("--from", "source", metavar="PROFILE", shell_complete=complete_names, help="Start from this profile.")
@click.option("--rename", is_flag=True, help="With --from: the other name goes away.")
@click.option("--force", is_flag=True, help="Replace a profile of yours that has the name.")
@JSON
def save_command(
    name: str, assignments: tuple[str, ...], source: str | None, rename: bool, force: bool, as_json: bool
) -> None:
    """Save profile NAME: change keys of it, or make it from another one.

    \b
      console profiles save mine --from eagle3-8gpu engine.model=/models/target
      console profiles save mine speculation.steps=3 targets.goals_tok_s=150,200
      console profiles save mine speculation.drafter=            back to the default
    """  # noqa: D301 - \b is click's mark for lines that are not joined
    import msgspec

    from profiles import assign, store

    store.check_name(name)
    start = store.entry(source or name)
    changed = assign.assigned(start.profile, assignments)
    if rename and source is None:
        raise ConsoleError("--rename needs --from", todo="say which profile gets the new name", code=ExitCode.USAGE)
    if changed.name != start.profile.name:
        raise ConsoleError("the name is not a key to change", todo="use --from, with --rename", code=ExitCode.USAGE)
    renamed = msgspec.structs.replace(changed, name=name)
    if rename and source is not None and start.profile.name != name:
        store.rename(source, name, overwrite=force)
        start = store.entry(name)
        path = store.save(renamed, based_on=start.profile)
    else:
        path = store.save(renamed, based_on=start.profile, overwrite=force, source=start.path)
    if as_json:
        rows = [{"key": key, "a": one, "b": other} for key, one, other in store.differences(start.profile, renamed)]
        _print_json({"name": name, "path": str(path), "from": start.profile.name, "differences": rows})
    else:
        click.echo(str(path))


def _running(obj: RigContext) -> Profile:
    """What runs now, as a profile."""
    from console.agent.running import as_profile
    from console.commands import _rig

    return as_profile(_rig.connect(obj).running())


def _print_json(document: dict[str, Any]) -> None:
    click.echo(json.dumps(document, indent=1, default=str, allow_nan=False))


def _shown(value: object) -> str:
    return "-" if value is None else json.dumps(value, default=str)


def _safe(text: str) -> str:
    """Text of a file: control characters are shown, not sent, and what the terminal's locale lacks is escaped."""
    plain = "".join(char if char.isprintable() or char == "\t" else f"\\x{ord(char):02x}" for char in text)
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    return plain.encode(encoding, errors="backslashreplace").decode(encoding)
