"""Whether this terminal can show the console at all. Imported before Textual, so that a no is quick."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Protocol

from console.errors import ConsoleError, ExitCode


class Stream(Protocol):
    """A standard stream, as far as it matters here."""

    def isatty(self) -> bool:
        """Whether it is a terminal."""


_INSTEAD = "`console status` prints the same figures as text, --json as JSON"


def check(
    environ: Mapping[str, str] | None = None,
    streams: Mapping[str, Stream | None] | None = None,
    *,
    instead: str = _INSTEAD,
) -> None:
    """Refuse what is no terminal or cannot place text.

    Args:
        environ: default: this process's.
        streams: by name; default: the standard ones. Keys come from stdin, Textual draws on stderr, and a stdout that is a pipe
            says that somebody wants text.
        instead: what to do on such a terminal.

    Raises:
        ConsoleError: exit code 2, one line.
    """
    environ = os.environ if environ is None else environ
    if streams is None:
        streams = {"stdin": sys.__stdin__, "stdout": sys.__stdout__, "stderr": sys.__stderr__}
    for name, stream in streams.items():
        if stream is None or not stream.isatty():
            raise ConsoleError("the console needs a terminal", why=f"{name} is none", todo=instead, code=ExitCode.USAGE)
    term = environ.get("TERM", "")
    if term in ("", "dumb", "unknown"):
        raise ConsoleError(
            "the console needs a terminal that can place text",
            why=f"TERM is {term or 'not set'}",
            todo=f"set TERM (xterm-256color, tmux-256color, screen), or: {instead}",
            code=ExitCode.USAGE,
        )
