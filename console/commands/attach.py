"""``console attach URL``: watch a server that somebody else started."""

from __future__ import annotations

import contextlib
import re
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

if TYPE_CHECKING:
    from console.agent.client import AgentClient
    from console.rig import Snapshot

_FIRST_ANSWER_S = 15.0
"""How long a server gets to answer for the first time; its own `/server_info` may wait behind a long prefill."""


@click.command("attach")
@click.argument("url")
@click.option("--once", is_flag=True, help="Print what is known as text and end, without the deck.")
@click.option("--json", "as_json", is_flag=True, help="Print the snapshot as JSON and end, without the deck.")
@click.pass_obj
def command(obj: object, /, url: str, once: bool, as_json: bool) -> None:
    """Watch the SGLang server at URL (http://host:port, or host:port) that somebody else started.

    It is only watched: it cannot be stopped from here, and its log is not read. Its rig is named after host and port (or by
    --rig), so several servers can be watched at once. Exit code 3: it does not answer.
    """
    base = address(url)
    rig = getattr(obj, "rig", None) or rig_of(base)
    if once or as_json:
        report(look(rig, base), as_json=as_json)
        return
    from console.screens import terminal

    terminal.check(instead=f"`console attach {url} --once` prints the figures as text, --json as JSON")
    from console.commands.deck import open_app
    from console.errors import ConsoleError
    from console.rig import EngineState

    def begin(client: AgentClient) -> None:
        try:
            attach(client, base)
        except ConsoleError:
            if client.snapshot().engine.state is EngineState.NONE:
                client.stop_agent()  # it was started for this and has nothing to do
            raise

    open_app(rig, first=begin)


def address(url: str) -> str:
    """The server's address as ``http://host:port``.

    Raises:
        ConsoleError: it is none (exit code 2).
    """
    from console.errors import ConsoleError, ExitCode

    given = url if "//" in url else f"http://{url}"
    try:
        parts = urlsplit(given)
        port = parts.port
    except ValueError as error:
        raise ConsoleError(
            f"{url!r} is no URL", why=str(error), todo="give http://host:port", code=ExitCode.USAGE
        ) from error
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/") or parts.query:
        raise ConsoleError(
            f"{url!r} is no server's address", todo="give http://host:port, without a path", code=ExitCode.USAGE
        )
    if parts.username or parts.password:
        raise ConsoleError(
            "the address holds a password",
            why="it would stand in the history",
            todo="leave it out",
            code=ExitCode.USAGE,
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port or (443 if parts.scheme == 'https' else 30000)}"


def rig_of(base: str) -> str:
    """A rig's name for an address: host and port in letters that a rig's name may have."""
    parts = urlsplit(base)
    host = re.sub(r"[^A-Za-z0-9._-]+", "-", parts.hostname or "").strip("-._") or "server"
    return f"{host[-32:].lstrip('-._')}-{parts.port}"


def look(rig: str, base: str) -> Snapshot:
    """Watch the server just long enough for its figures; an agent that is started for it ends again."""
    from console.agent.client import AgentClient, AgentGoneError
    from console.agent.spawn import ensure_agent
    from console.paths import RigPaths

    try:
        AgentClient(RigPaths(rig)).ping()
        ours = False
    except AgentGoneError:
        ours = True
    client = ensure_agent(rig)
    try:
        attach(client, base)
        return answered(client, base)
    finally:
        if ours:
            leave(client)


def leave(client: AgentClient) -> None:
    """Stop watching, then end the agent."""
    from console.errors import ConsoleError
    from console.rig import OperationState

    with contextlib.suppress(ConsoleError):  # nothing is watched
        client.operate("detach", {})
    deadline = time.monotonic() + _FIRST_ANSWER_S
    while (last := client.snapshot().operation) is not None and last.state is OperationState.RUNNING:
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    client.stop_agent()


def attach(client: AgentClient, base: str) -> None:
    """Have the agent watch the address; nothing to do when it does already.

    Raises:
        ConsoleError: the agent runs an engine of its own, or watches another server.
    """
    engine = client.snapshot().engine
    if engine.attached and engine.url.rstrip("/") == base:
        return
    client.operate("attach", {"url": base})


def answered(client: AgentClient, base: str) -> Snapshot:
    """The first snapshot in which the server has answered.

    Raises:
        ConsoleError: it does not answer in time (exit code 3).
    """
    from console.errors import ConsoleError, ExitCode
    from console.screens.possible import SERVING

    deadline = time.monotonic() + _FIRST_ANSWER_S
    while True:
        snapshot = client.snapshot()
        if snapshot.engine.attached and snapshot.engine.state in SERVING and snapshot.load.running.value is not None:
            return snapshot
        if time.monotonic() > deadline:
            why = snapshot.engine.note or "no answer"
            raise ConsoleError(f"{base} is not watched", why=why, todo="check the address", code=ExitCode.UNREACHABLE)
        time.sleep(0.25)


def report(snapshot: Snapshot, *, as_json: bool) -> None:
    """The snapshot as JSON, or what the deck shows first as text."""
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode({"simulated": snapshot.simulated, **msgspec.to_builtins(snapshot)}).decode())
        return
    from console.commands.status import print_status

    print_status(snapshot)
