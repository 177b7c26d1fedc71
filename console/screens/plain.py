"""ASCII only: for C locales and for terminals whose font has nothing else."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Mapping

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

VARIABLE = "SGLANG_CONSOLE_ASCII"
"""1: ASCII only, 0: never; otherwise the locale decides."""

_DRAWN = {
    **dict.fromkeys("─━═╌┄╍┅┈┉╴╶╸╺▔▁▂", "-"),
    **dict.fromkeys("│┃║╎┆╏┇┊┋╵╷╹╻▏▎▍▌▊▉▕▐", "|"),
    **dict.fromkeys("█▓▒░▇▆▅▄▃▀", "#"),
    **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╰╯┏┓┗┛┣┫┳┻╋╔╗╚╝", "+"),
    "▶": ">",
    "▼": "v",
    "▲": "^",
    "◀": "<",
    "•": "*",
    "…": ".",
    "—": "-",
    "\u2013": "-",
    "↑": "^",
    "↓": "v",
    "←": "<",
    "→": ">",
    "⏎": "<",
    "✓": "+",
    "✗": "x",
    "\u00a0": " ",
    "·": ".",
}


def wanted(environ: Mapping[str, str]) -> bool:
    """Whether the terminal is to get ASCII only: the locale is not UTF-8, or it is the Linux console.

    The locale is looked up as the C library does (setlocale(3)): LC_ALL, LC_CTYPE, LANG, the first that is not empty.
    Python's own encoding does not tell, because its UTF-8 mode (PEP 540) writes UTF-8 in the C locale as well.
    """
    if (choice := environ.get(VARIABLE, "")) in ("0", "1"):
        return choice == "1"
    locale = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environ.get(name))), "C")
    return "utf8" not in locale.lower().replace("-", "") or environ.get("TERM") == "linux"


class AsciiOnly(LineFilter):
    """The last thing before the terminal: whatever a widget drew, only ASCII leaves, in the same number of cells."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002 - Textual's signature
        """Segments of the same width with ASCII text."""
        return [
            segment if segment.text.isascii() else Segment(ascii_text(segment.text), segment.style, segment.control)
            for segment in segments
        ]


def ascii_text(text: str) -> str:
    """ASCII of the same width in cells: lines and arrows by a likeness, letters without their marks, the rest as '?'."""
    out: list[str] = []
    for char in text:
        if char.isascii():
            out.append(char)
            continue
        like = _DRAWN.get(char) or unicodedata.normalize("NFD", char)[:1].encode("ascii", "ignore").decode() or "?"
        out.append((like * 2)[: cell_len(char)])
    return "".join(out)


def here() -> bool:
    """:func:`wanted` for this process; also when Python would not write UTF-8 (PYTHONIOENCODING). Textual writes to stderr."""
    encoding = getattr(sys.__stderr__, "encoding", None) or "ascii"
    return wanted(os.environ) or "utf8" not in encoding.lower().replace("-", "")
