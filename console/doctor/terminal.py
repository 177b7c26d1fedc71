"""The terminal: what it can show."""

from __future__ import annotations

import locale
import os
import shutil
import sys
from typing import TYPE_CHECKING

from console.doctor.finding import Finding, ok, warn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LEAST = (60, 20)
"""Columns and lines the deck needs at least."""
COMFORTABLE = (80, 24)


def check(environment: Mapping[str, str] | None = None) -> Iterator[Finding]:
    """TERM and colours, locale, size, multiplexer."""
    variables = os.environ if environment is None else environment
    yield _colours(variables)
    yield _encoding()
    yield _size()
    yield _multiplexer(variables)


def colours(variables: Mapping[str, str]) -> str:
    """How many colours the terminal says it has."""
    term = variables.get("TERM", "")
    if variables.get("NO_COLOR"):
        return "none (NO_COLOR)"
    if term in {"", "dumb"}:
        return "none"
    if variables.get("COLORTERM") in {"truecolor", "24bit"} or "direct" in term:
        return "16 million"
    return "256" if "256color" in term else "16"


def _colours(variables: Mapping[str, str]) -> Finding:
    term, shown = variables.get("TERM", ""), colours(variables)
    data = {"term": term, "colours": shown, "tty": sys.stdout.isatty()}
    if term in {"", "dumb"}:
        todo = "set TERM (xterm-256color, tmux-256color) to open the deck; all other commands work without"
        return warn("terminal", f"TERM is {term or 'not set'}: no full-screen console", todo, **data)
    return ok("terminal", f"TERM={term}, colours: {shown}", **data)


def _encoding() -> Finding:
    encoding = (getattr(sys.stdout, "encoding", None) or locale.getpreferredencoding(do_setlocale=False)).lower()
    if encoding.replace("-", "") != "utf8":
        todo = "set LC_ALL=C.UTF-8 for graphs in braille; without it they are drawn in ASCII"
        return warn("locale", f"output is encoded as {encoding}, not UTF-8", todo, encoding=encoding)
    return ok("locale", "output is UTF-8", encoding=encoding)


def _size() -> Finding:
    columns, lines = shutil.get_terminal_size(COMFORTABLE)
    data = {"columns": columns, "lines": lines}
    if columns < LEAST[0] or lines < LEAST[1]:
        todo = f"the deck needs {LEAST[0]}x{LEAST[1]}"
        return warn("size", f"the terminal is {columns}x{lines}", todo, **data)
    return ok("size", f"{columns}x{lines}", **data)


def _multiplexer(variables: Mapping[str, str]) -> Finding:
    inside = "tmux" if variables.get("TMUX") else "screen" if variables.get("STY") else ""
    over_ssh = bool(variables.get("SSH_CONNECTION"))
    if over_ssh and not inside:
        message = "over ssh without tmux: the engine survives a lost connection, `console` comes back to it"
        return ok("session", message, multiplexer="", ssh=True)
    return ok("session", f"in {inside}" if inside else "no tmux or screen", multiplexer=inside, ssh=over_ssh)
