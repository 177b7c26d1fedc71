"""Start-up: first frame and first live figure, beside the least Textual app and beside nvitop."""

from __future__ import annotations

import os
import re
import statistics
import sys
from typing import TYPE_CHECKING

from tests.bench import minimal, nvitop
from tests.bench.table import ms, ratio, show
from tests.bench.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

    from tests.bench.rig import Rig

REPEATS = 5
FIRST_FRAME = re.compile(r"CONNECTING|READY")
"""The header's state: it stands in the first frame, before any figure came."""
LIVE_FIGURE = re.compile(r"\d\.\d\d")
"""accept_len or a stage's milliseconds: the first figure with two decimals on the deck."""


def run(rig: Rig, library: Path | None) -> None:
    """Print medians of several starts, taken in turn so that all meet the same machine."""
    plain = {**os.environ, "TERM": "xterm-256color"}
    monitor = nvitop.command() if library else None
    frames: dict[str, list[float | None]] = {"minimal": [], "console": [], "nvitop": []}
    live: list[float | None] = []
    for _ in range(REPEATS):
        with Terminal([sys.executable, "-m", "tests.bench.minimal"], plain) as terminal:
            frames["minimal"].append(terminal.seconds_until(re.compile(minimal.MARK)))
        with Terminal(rig.deck, rig.env) as terminal:
            frames["console"].append(terminal.seconds_until(FIRST_FRAME))
            live.append(terminal.seconds_until(LIVE_FIGURE))
        if monitor and library:
            with Terminal(monitor, nvitop.environment(library, 8)) as terminal:
                frames["nvitop"].append(terminal.seconds_until(re.compile("NVITOP")))
    first = {name: _median(values) for name, values in frames.items()}
    figure = _median(live)
    after = figure - first["console"] if figure is not None and first["console"] is not None else None
    rows = [
        ["minimal Textual app", ms(first["minimal"]), "", "1.00x"],
        ["console, running agent", ms(first["console"]), ms(figure), ratio(first["console"], first["minimal"])],
        ["nvitop, fake NVML", ms(first["nvitop"]), "", ratio(first["nvitop"], first["minimal"])],
    ]
    show(f"start-up, median of {REPEATS}", ["program", "first frame", "live figure", "frame / minimal"], rows)
    print(f"  live figures {ms(after)} after the first frame (budget 200 ms; first frame 1.4x of the minimal app)")


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
