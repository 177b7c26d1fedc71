"""Figures three rows high, for the one number that is read from across the room."""

from __future__ import annotations

from panels import glyphs

ROWS = 3
_SHAPES: dict[str, tuple[str, str, str]] = {
    "0": ("┏━┓", "┃ ┃", "┗━┛"),
    "1": ("╺┓ ", " ┃ ", "╺┻╸"),
    "2": ("╺━┓", "┏━┛", "┗━╸"),
    "3": ("╺━┓", " ━┫", "╺━┛"),
    "4": ("╻ ╻", "┗━┫", "  ╹"),
    "5": ("┏━╸", "┗━┓", "╺━┛"),
    "6": ("┏━╸", "┣━┓", "┗━┛"),
    "7": ("╺━┓", "  ┃", "  ╹"),
    "8": ("┏━┓", "┣━┫", "┗━┛"),
    "9": ("┏━┓", "┗━┫", "╺━┛"),
    ".": (" ", " ", "▪"),
}


def big(text: str) -> list[str]:
    """``text`` as three rows; as one plain row in the middle where it holds no figure or the terminal has only ASCII."""
    if glyphs.active().ascii or not text or any(char not in _SHAPES for char in text):
        return [" " * len(text), text, " " * len(text)]
    return ["".join(_SHAPES[char][row] for char in text) for row in range(ROWS)]
