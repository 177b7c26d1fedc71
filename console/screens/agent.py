"""What the app needs from the agent's client. The real one is :mod:`console.agent.client`; tests bring their own."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from console.rig import Operation, Preview, Snapshot


class LogPage(Protocol):
    """Whole lines of the engine's log between two byte offsets."""

    @property
    def path(self) -> str:
        """The file; another one after a restart of the engine."""

    @property
    def size(self) -> int:
        """Bytes in the file when it was read."""

    @property
    def start(self) -> int:
        """Offset of the first line's first byte."""

    @property
    def end(self) -> int:
        """Offset after the last line."""

    @property
    def lines(self) -> Sequence[str]:
        """The lines, masked, without control characters."""


class Agent(Protocol):
    """A connection to the agent. Every call blocks and raises :class:`~console.errors.ConsoleError` with one clear line."""

    def stream(self) -> Iterator[Snapshot]:
        """Snapshots as they come; ends or raises when the agent goes. Its ``close`` may be called from another thread."""

    def preview(self, kind: str, args: Mapping[str, object]) -> Preview:
        """What an operation would do."""

    def operate(self, kind: str, args: Mapping[str, object], by: str) -> Operation:
        """Begin an operation."""

    def cancel(self) -> object:
        """Cancel the running operation, while that is possible."""

    def log(self, before: int | None = None, after: int | None = None, limit: int = 200) -> LogPage:
        """Lines before an offset, after one, or the last ones."""


Connect = Callable[[], Agent]
"""Connects to the agent, starting it when none runs. Called in a thread, again after every loss."""


def operator() -> str:
    """Who asks for an operation: the login name and the terminal, for the history and for the other operator."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid {os.getuid()}"
    try:
        return f"{name} on {os.ttyname(0).removeprefix('/dev/')}"
    except OSError:
        return name
