"""``console`` without a command: the deck on this box."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from console.cli import RigContext
    from console.screens.agent import Agent


def open_console(obj: RigContext) -> None:
    """Open the deck of the rig that was named, else of the only one that runs, else of ``default``."""
    from console.screens import terminal

    terminal.check()
    open_app(obj.rig)


def open_app(rig: str | None, *, read_only: bool = False) -> None:
    """Open the app. The terminal was checked; the agent is found, or started, when the first frame is painted.

    Args:
        rig: name of the rig; ``None``: the only one that runs, else ``default``.
        read_only: show everything, change nothing.
    """
    from console.app import ConsoleApp
    from console.screens import plain

    def connect() -> Agent:
        from console.agent.client import choose
        from console.agent.spawn import ensure_agent

        return ensure_agent(choose(rig))

    app = ConsoleApp(connect, rig=rig, read_only=read_only, ascii_only=plain.here())
    app.run()
    if app.failure is not None:
        raise app.failure
    sys.exit(app.return_code or 0)
