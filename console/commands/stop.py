"""``console stop``: SIGTERM, a deadline, then the engine's own processes only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from console.errors import ExitCode

if TYPE_CHECKING:
    from console.cli import RigContext


@click.command("stop")
@click.option("--json", "as_json", is_flag=True, help="Nothing but the operation as JSON on stdout.")
@click.pass_obj
def command(obj: RigContext, /, as_json: bool) -> None:
    """Stop the engine: running requests are finished first, then its port and GPU memory are waited for.

    A start that is under way is taken back. What does not end within the profile's stop_timeout_s is killed: exactly the
    processes of this engine, never by name.
    """
    from console import rig
    from console.commands import _rig

    client = _rig.connect(obj)
    running = client.snapshot().operation
    if running is not None and running.state is rig.OperationState.RUNNING and running.kind == "launch":
        _rig.narrate(f"{running.title} is under way: taking it back")
        client.cancel()
        _rig.follow(client, running, _rig.Steps())
        if client.snapshot().engine.state not in _rig.RUNNING:
            click.echo("stopped")
            return
    _rig.change(client, "stop", {}, yes=True, as_json=as_json, refused_code=ExitCode.FAILED)
