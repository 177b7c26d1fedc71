"""What is refused before Textual is imported, and when the drawing is ASCII only."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from console.errors import ConsoleError, ExitCode
from console.screens import plain, terminal


class Tty:
    def __init__(self, yes: bool) -> None:
        self.yes = yes

    def isatty(self) -> bool:
        return self.yes


GOOD = {"stdin": Tty(True), "stdout": Tty(True), "stderr": Tty(True)}


def test_a_terminal_is_accepted() -> None:
    terminal.check({"TERM": "screen"}, GOOD)


@pytest.mark.parametrize("name", ["stdin", "stdout", "stderr"])
@pytest.mark.parametrize("stream", [None, Tty(False)])
def test_a_pipe_is_refused_with_what_to_do(name: str, stream: Tty | None) -> None:
    with pytest.raises(ConsoleError) as raised:
        terminal.check({"TERM": "xterm"}, GOOD | {name: stream})
    assert raised.value.code is ExitCode.USAGE
    assert name in raised.value.line
    assert "console status" in raised.value.line


@pytest.mark.parametrize("term", ["", "dumb", "unknown"])
def test_a_terminal_that_cannot_place_text_is_refused(term: str) -> None:
    with pytest.raises(ConsoleError) as raised:
        terminal.check({"TERM": term}, GOOD)
    assert raised.value.code is ExitCode.USAGE
    assert "TERM" in raised.value.line


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, True),
        ({"LANG": "C"}, True),
        ({"LANG": "en_US.UTF-8"}, False),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "C"}, True),
        ({"LANG": "en_US.UTF-8", "LC_ALL": ""}, False),
        ({"LANG": "de_DE.ISO-8859-1"}, True),
        ({"LC_CTYPE": "C.utf8"}, False),
        ({"LC_ALL": "C.UTF-8", "TERM": "linux"}, True),
        ({"LC_ALL": "C", "SGLANG_CONSOLE_ASCII": "0"}, False),
        ({"LC_ALL": "C.UTF-8", "SGLANG_CONSOLE_ASCII": "1"}, True),
    ],
)
def test_the_locale_decides_on_ascii(environ: dict[str, str], expected: bool) -> None:
    assert plain.wanted(environ) is expected


@pytest.mark.parametrize("text", ["plain", "─━█╭╮", "Größe", "名前", "🔎 x", "e\u0301"])
def test_ascii_keeps_the_width(text: str) -> None:
    shown = plain.ascii_text(text)
    assert shown.isascii()
    assert cell_len(shown) == cell_len(text)
