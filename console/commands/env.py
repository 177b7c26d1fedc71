"""``console env``: the environment of the engine's processes, and where it is not what was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from console.errors import ExitCode

if TYPE_CHECKING:
    from console.cli import RigContext
    from console.environment import Matrix, Variable


@click.command("env")
@click.option("--json", "as_json", is_flag=True, help="Nothing but JSON on stdout.")
@click.pass_context
def command(ctx: click.Context, /, as_json: bool) -> None:
    """Show the variables that decide speed: as the profile asks, as the launcher got them, as each worker has them.

    Secrets are masked. What SGLang itself changes is marked as such. Exit code 4 when something differs.
    """
    from console.commands import _rig

    obj: RigContext = ctx.obj
    client = _rig.connect(obj)
    found = client.environment()
    if as_json:
        import msgspec

        document = {
            **msgspec.to_builtins(found),
            "differences": list(found.differences),
            "simulated": client.ping()["simulated"],
        }
        click.echo(msgspec.json.encode(document).decode())
    else:
        _print(found)
    ctx.exit(ExitCode.NO if found.differences else ExitCode.OK)


def _print(found: Matrix) -> None:
    from console.commands import _rig
    from console.engine.logtext import sanitize

    if found.launcher_why:
        _rig.narrate(f"launcher: not known: {sanitize(found.launcher_why)}")
    if found.workers_why:
        _rig.narrate(f"workers: not known: {sanitize(found.workers_why)}")
    rows: list[tuple[str, ...]] = [("variable", "asked for", "launcher", "workers", "")]
    rows += [tuple(sanitize(cell) for cell in row(variable, found)) for variable in found.variables]
    widths = [max(len(cells[column]) for cells in rows) for column in range(4)]
    for cells in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(cells, (*widths, 0), strict=True))
        click.echo(line.rstrip())
    if not found.variables:
        click.echo("no variable that decides speed is set")
    for words in found.differences:
        click.echo(f"differs: {sanitize(words)}")


def row(variable: Variable, found: Matrix) -> tuple[str, str, str, str, str]:
    """One variable in words: name, asked for, launcher, workers, who else sets it."""
    asked = f"set {variable.wanted}" if variable.asked == "set" else variable.asked
    launcher = "?" if found.launcher_why else _value(variable.launcher)
    values = list(dict.fromkeys(worker.value for worker in variable.workers))
    if not values:
        workers = "?" if found.workers_why else "not reported"
    elif len(values) == 1:
        workers = _value(values[0])
    else:
        workers = " ".join(f"{worker.rank}:{_value(worker.value)}" for worker in variable.workers)
    return variable.name, asked or "-", launcher, workers, variable.by


def _value(value: str | None) -> str:
    return "-" if value is None else value or '""'
