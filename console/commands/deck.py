"""``console`` without a command: the deck on this box."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from console.errors import ConsoleError

if TYPE_CHECKING:
    from console.agent.client import AgentClient
    from console.cli import RigContext


def open_console(obj: RigContext) -> None:
    """Open the deck of the rig that was named, else of the only one that runs, else of ``default``."""
    from console.screens import terminal

    terminal.check()
    open_app(obj.rig)


def open_app(rig: str | None, *, simulated: bool = False, first: Callable[[AgentClient], None] | None = None) -> None:
    """Open the app. The terminal was checked; the agent is found, or started, when the first frame is painted.

    Args:
        rig: name of the rig; ``None``: the only one that runs, else ``default``.
        simulated: an agent that has to be started is one for the simulated rig.
        first: what to ask of the agent once, before the first figures are shown.
    """
    from console.app import ConsoleApp
    from console.screens import hangup, plain
    from console.screens.agent import CannotBeginError

    todo = [first] if first is not None else []

    def connect() -> AgentClient:
        from console.agent.client import choose
        from console.agent.spawn import ensure_agent

        try:
            name = choose(rig)
        except ConsoleError as error:
            raise CannotBeginError.because(error) from error
        client = ensure_agent(name, simulated=simulated)
        if todo:
            try:
                todo[0](client)
            except ConsoleError as error:
                raise CannotBeginError.because(error) from error
            todo.clear()
        return client

    hangup.end_with_the_terminal()
    app = ConsoleApp(connect, rig=rig, ascii_only=plain.here())
    app.run()
    if app.failure is not None:
        raise app.failure
    sys.exit(app.return_code or 0)
