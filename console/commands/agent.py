"""``console agent``: the rig's daemon."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click

from console.errors import ConsoleError, ExitCode

if TYPE_CHECKING:
    from console.cli import RigContext

STOP_S = 10.0


@click.group("agent")
def command() -> None:
    """Look after the rig's daemon. It owns the engine's supervision and the history; ending it does not touch the engine."""


@command.command("status")
@click.option("--json", "as_json", is_flag=True, help="Nothing but JSON on stdout.")
@click.pass_obj
def status(obj: RigContext, /, as_json: bool) -> None:
    """Say which agent runs. Exit code 3: none."""
    from console.agent.client import connect

    client = connect(obj.rig)
    answer = client.ping()
    if as_json:
        click.echo(json.dumps(answer))
        return
    simulated = "SIMULATED, " if answer["simulated"] else ""
    click.echo(f"agent of rig {answer['rig']}: {simulated}pid {answer['pid']}, version {answer['version']}")


@command.command("stop")
@click.pass_obj
def stop(obj: RigContext, /) -> None:
    """End the agent; the engine runs on, and the next console adopts it."""
    from console.agent.client import AgentClient, choose
    from console.paths import RigPaths

    client = AgentClient(RigPaths(choose(obj.rig)))
    client.stop_agent()
    deadline = time.monotonic() + STOP_S
    while time.monotonic() < deadline:
        try:
            client.ping()
        except ConsoleError:
            click.echo(f"the agent of rig {client.rig} has ended; the engine, if any, runs on")
            return
        time.sleep(0.05)
    raise ConsoleError("the agent was told to end and still answers", todo="see console agent logs")


@command.command("logs")
@click.option("--lines", "-n", default=50, show_default=True, help="How many lines.")
@click.pass_obj
def logs(obj: RigContext, /, lines: int) -> None:
    """Print the end of the agent's own log."""
    from collections import deque

    from console.agent.client import choose
    from console.engine.logtext import sanitize
    from console.paths import RigPaths

    path = RigPaths(choose(obj.rig)).agent_log
    try:
        with path.open(errors="replace") as file:
            newest = deque(file, maxlen=max(1, lines))
    except FileNotFoundError as error:
        raise ConsoleError(
            f"there is no agent log at {path}", why="no agent has run on this rig", code=ExitCode.UNREACHABLE
        ) from error
    except OSError as error:
        raise ConsoleError(f"{path} cannot be read", why=error.strerror or str(error)) from error
    for line in newest:
        click.echo(sanitize(line))
