"""A snapshot's way over the wire: encode and decode."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from console.rig import Snapshot
from tests.bench.table import show

if TYPE_CHECKING:
    from collections.abc import Callable

SPAN_S = 1.0


def rate(work: Callable[[], object]) -> float:
    """Times a second that ``work`` runs."""
    count, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < SPAN_S:
        for _ in range(10):
            work()
        count += 10
    return count / passed


def run(snapshots: dict[str, bytes]) -> None:
    """Print encode and decode of real snapshots, as the agents of this run sent them."""
    encoder, decoder = msgspec.json.Encoder(), msgspec.json.Decoder(Snapshot)
    rows = []
    for name, raw in snapshots.items():
        snapshot = decoder.decode(raw)
        encode, decode = rate(lambda s=snapshot: encoder.encode(s)), rate(lambda r=raw: decoder.decode(r))
        rows.append([name, f"{len(raw)} B", f"{1e6 / encode:.0f} us", f"{1e6 / decode:.0f} us"])
    show("snapshot as JSON", ["snapshot of", "size", "encode", "decode"], rows)
