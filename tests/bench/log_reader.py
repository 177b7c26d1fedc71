"""How fast the log reader reads: real logs of SGLang, over and over."""

from __future__ import annotations

import time
from pathlib import Path

from console.engine.log import LogReader
from tests.bench.table import show

FIXTURES = Path(__file__).parents[1] / "fixtures"
LOGS = {
    "serving, one rank (0.5.17, H200)": "h200-0.5.17/main/stderr.log",
    "serving, CPU (0.5.23)": "cpu-0.5.23/main/main/stderr.log",
    "a crash with traceback": "h200-0.5.17/fail_drafter_bad/stderr.log",
}
FLOOD = b"[2026-12-01 01:01:42 TP0] a line that says nothing to anybody, and there are very many of them\n"
CHUNK = 65536
SPAN_S = 2.0


def run() -> None:
    """Print lines and bytes a second."""
    rows = []
    texts = {name: (FIXTURES / path).read_bytes() for name, path in LOGS.items()}
    for name, text in {**texts, "a flood of lines that mean nothing": FLOOD * 5000}.items():
        lines, size, start = 0, 0, time.perf_counter()
        while (passed := time.perf_counter() - start) < SPAN_S:
            reader = LogReader()
            for place in range(0, len(text), CHUNK):
                reader.feed(text[place : place + CHUNK])
            reader.close()
            lines += reader.state.lines
            size += len(text)
        rows.append([name, f"{lines / passed:,.0f}", f"{size / passed / 1e6:.1f} MB/s"])
    show("log reader", ["log", "lines/s", "bytes"], rows)
