"""What the commands that act on a rig share: finding its agent, asking before a change, following it to its end."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import click

from console import rig
from console.agent.client import AgentClient, choose
from console.engine.logtext import sanitize
from console.errors import ConsoleError, ExitCode
from console.paths import RigPaths

if TYPE_CHECKING:
    from console.cli import RigContext

RUNNING = frozenset(
    {
        rig.EngineState.STARTING,
        rig.EngineState.READY,
        rig.EngineState.PAUSED,
        rig.EngineState.BUSY,
        rig.EngineState.STOPPING,
        rig.EngineState.UNREACHABLE,
    }
)
"""States in which there is an engine to act on."""


def connect(obj: RigContext) -> AgentClient:
    """The rig's agent; one that died while its engine lives is replaced by one that adopts it.

    Raises:
        ConsoleError: nothing runs (exit code 3).
    """
    from console.agent import left

    name = choose(obj.rig)
    paths = RigPaths(name)
    client = AgentClient(paths)
    try:
        client.ping()
    except ConsoleError as error:
        if error.code is not ExitCode.UNREACHABLE or not left.is_there(paths.state):
            raise
        from console.agent.spawn import ensure_agent

        narrate("no agent runs, but an engine does: starting an agent that adopts it")
        return ensure_agent(name)
    return client


def narrate(text: str) -> None:
    """A line on standard error."""
    click.echo(text, err=True)


def show(preview: rig.Preview) -> None:
    """A preview, on standard error."""
    how = {"live": "live", "restart": "by drain and restart"}.get(preview.path, preview.path)
    why = sanitize(preview.path_why)
    narrate(sanitize(preview.title) + (f": {how}" if how else "") + (f" ({why})" if why else ""))
    for change in preview.changes:
        narrate(f"  {change.what:<10} {sanitize(change.before) or '-'} -> {sanitize(change.after)}")
    if preview.expected_s is not None:
        narrate(f"  takes      about {duration(preview.expected_s)} ({preview.expected_from})")
    elif preview.expected_from:
        narrate(f"  takes      not known: {preview.expected_from}")
    for warning in preview.warnings:
        narrate(f"  warning    {sanitize(warning)}")


def duration(seconds: float) -> str:
    """Seconds for reading."""
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def change(
    client: AgentClient, kind: str, args: Mapping[str, Any], *, yes: bool, as_json: bool, refused_code: ExitCode
) -> None:
    """Preview, ask, do, follow; ends the command with the exit code of the outcome."""
    preview = client.preview(kind, args)
    if preview.refused:
        runs = client.snapshot().engine.state in RUNNING
        code = refused_code if runs else ExitCode.UNREACHABLE
        raise ConsoleError(f"{preview.title} is refused", why=preview.refused, code=code)
    show(preview)
    if not yes:
        confirm()
    finish(client, client.operate(kind, args), as_json=as_json)


def confirm() -> None:
    """Ask; where nobody can answer, ``--yes`` is wanted.

    Raises:
        ConsoleError: nobody can be asked.
        click.Abort: the answer is no.
    """
    if not sys.stdin.isatty():
        raise ConsoleError("nobody can be asked", why="this is no terminal", todo="add --yes", code=ExitCode.USAGE)
    click.confirm("do it?", abort=True, err=True)


def finish(client: AgentClient, operation: rig.Operation, *, as_json: bool) -> NoReturn:
    """Follow an operation to its end, tell its outcome, end the command."""
    done = follow(client, operation, Steps())
    if as_json:
        print_operation(done, simulated=client.ping()["simulated"])
    else:
        click.echo(f"{done.state.value}: {sanitize(done.message)}")
    sys.exit(ExitCode.OK if done.state is rig.OperationState.DONE else ExitCode.FAILED)


def print_operation(operation: rig.Operation, *, simulated: bool) -> None:
    """An operation as JSON, labelled when it is of a simulated rig."""
    import msgspec

    click.echo(msgspec.json.encode({**msgspec.to_builtins(operation), "simulated": simulated}).decode())


def follow(client: AgentClient, operation: rig.Operation, tell: Callable[[rig.Snapshot], None]) -> rig.Operation:
    """Tell of every snapshot until an operation has ended.

    Raises:
        ConsoleError: the agent ended meanwhile.
    """
    stream = client.stream()
    with contextlib.closing(stream):
        for snapshot in stream:
            now = snapshot.operation
            if now is None or now.id != operation.id:
                break  # another one has begun since: this one has ended
            tell(snapshot)
            if now.state is not rig.OperationState.RUNNING:
                return now
    for row in reversed(client.history("operations")):
        if row.get("id") == operation.id:
            import msgspec

            return msgspec.convert(row, rig.Operation)
    raise ConsoleError(f"{operation.title}: its outcome is not known", why="another operation has taken its place")


class Steps:
    """Tells each step once, as it begins."""

    def __init__(self) -> None:
        self._told = ""

    def __call__(self, snapshot: rig.Snapshot) -> None:
        """Tell what is new."""
        operation = snapshot.operation
        running = (
            None
            if operation is None
            else next((step for step in operation.steps if step.state is rig.StepState.RUNNING), None)
        )
        if running is not None and running.name != self._told:
            self._told = running.name
            narrate(f"  ... {running.name}" + (f": {sanitize(running.detail)}" if running.detail else ""))
