"""``console demo``: the console on the simulated rig."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from console.agent.client import AgentClient

RIG = "demo"
PROFILE = "simulated"
_END_S = 30.0
"""The simulated engine drains its requests before it ends."""


@click.command("demo")
@click.option("--stop", "stop", is_flag=True, help="End the simulated engine and its agent.")
@click.option("--no-ui", is_flag=True, help="Start it without opening the deck.")
@click.option("--json", "as_json", is_flag=True, help="With --no-ui: the snapshot as JSON when it is up.")
@click.pass_obj
def command(obj: object, /, stop: bool, no_ui: bool, as_json: bool) -> None:
    """Open the console on a simulated rig: eight GPUs and a server that are processes of their own, without a GPU or SGLang.

    Everything goes the same way as on a real rig, and is labelled SIMULATED. Leaving the deck (q) leaves the rig running; come
    back with `console demo` or `console --rig demo`, end it with `console demo --stop`.
    """
    from console.errors import ConsoleError, ExitCode

    named = getattr(obj, "rig", None)
    if named not in (None, RIG):
        raise ConsoleError(
            f"the demo is the rig {RIG!r}",
            why=f"--rig {named} names another",
            todo="leave --rig out",
            code=ExitCode.USAGE,
        )
    if stop:
        end()
        return
    if not no_ui:
        from console.commands.deck import open_app
        from console.screens import terminal

        terminal.check(instead="`console demo --no-ui` starts it, `console --rig demo status` prints its figures")
        open_app(RIG, simulated=True, first=begin)
        return
    from console.agent.spawn import ensure_agent

    client = ensure_agent(RIG, simulated=True)
    begin(client)
    if as_json:
        wait(client, 60.0)
        click.echo(client.snapshot_json().decode().strip())
    else:
        click.echo(
            "the simulated rig is starting: `console --rig demo status`; to end it: `console demo --stop`", err=True
        )


def begin(client: AgentClient) -> None:
    """Launch the simulated engine unless one is there already.

    Raises:
        ConsoleError: it cannot be launched.
    """
    from console.screens.possible import ALIVE

    if client.snapshot().engine.state not in ALIVE:
        client.operate("launch", {"profile": PROFILE})


def wait(client: AgentClient, seconds: float) -> None:
    """Wait until the engine serves.

    Raises:
        ConsoleError: it died, or takes longer.
    """
    import time

    from console.errors import ConsoleError
    from console.rig import EngineState, OperationState

    deadline = time.monotonic() + seconds
    while (engine := (snapshot := client.snapshot()).engine).state is not EngineState.READY:
        # Until its launcher runs, the end of the engine before it is what there is to see.
        launching = snapshot.operation is not None and snapshot.operation.state is OperationState.RUNNING
        if (engine.state is EngineState.DEAD and not launching) or time.monotonic() > deadline:
            cause = engine.failure.message if engine.failure is not None else engine.note
            raise ConsoleError(
                "the simulated engine did not come up", why=cause, todo="see: console --rig demo agent logs"
            )
        time.sleep(0.2)


def end() -> None:
    """End the simulated engine, then its agent. Nothing running is fine."""
    import time

    from console.agent.client import connect
    from console.errors import ConsoleError, ExitCode
    from console.screens.possible import ALIVE

    try:
        client = connect(RIG)
    except ConsoleError as error:
        if error.code is not ExitCode.UNREACHABLE:
            raise
        click.echo("the demo does not run", err=True)
        return
    if client.snapshot().engine.state in ALIVE:
        client.operate("stop", {})
        deadline = time.monotonic() + _END_S
        while client.snapshot().engine.state in ALIVE:
            if time.monotonic() > deadline:
                raise ConsoleError("the simulated engine does not stop", todo="see: console --rig demo agent logs")
            time.sleep(0.1)
    client.stop_agent()
    deadline = time.monotonic() + _END_S
    with contextlib.suppress(ConsoleError):
        while time.monotonic() < deadline:
            client.ping()  # raises when nobody answers any more
            time.sleep(0.05)
    click.echo("the demo has ended", err=True)
