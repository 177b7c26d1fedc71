"""Plain tables on stdout."""

from __future__ import annotations

from collections.abc import Sequence


def show(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: the first column to the left, figures to the right."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    print(f"\n{title}")
    for row in (head, ["-" * width for width in widths], *rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        print("  " + "  ".join(cells).rstrip())


def ms(seconds: float | None) -> str:
    """Milliseconds, or a dash."""
    return "-" if seconds is None else f"{1000 * seconds:.0f} ms"


def mib(count: float) -> str:
    """Mebibytes."""
    return f"{count / 1024**2:.1f} MiB"


def ratio(one: float | None, other: float | None) -> str:
    """How many times ``other`` is ``one``."""
    return "-" if not one or not other else f"{one / other:.2f}x"
