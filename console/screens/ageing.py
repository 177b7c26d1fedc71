"""A snapshot grown old: every figure stale, every age counted to now, so that nothing old looks new."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from console.rig import Cycle, Figure, Snapshot, Stage

_Record = TypeVar("_Record", bound=msgspec.Struct)


def aged(snapshot: Snapshot, seconds: float, why: str) -> Snapshot:
    """The snapshot ``seconds`` after it was received, with every figure marked stale.

    Args:
        snapshot: the last one that came.
        seconds: how long ago that was.
        why: reason that stands beside the figures.
    """
    return msgspec.structs.replace(
        snapshot,
        at_s=snapshot.at_s + max(0.0, seconds),
        cycle=_cycle(snapshot.cycle, why),
        acceptance=_figures(snapshot.acceptance, why),
        load=_figures(snapshot.load, why),
    )


def _cycle(cycle: Cycle, why: str) -> Cycle:
    stages = {
        name: msgspec.structs.replace(stage, stale=True, why=why)
        for name in ("draft", "verify", "extend", "gap")
        if isinstance(stage := getattr(cycle, name), Stage) and stage.mean_ms is not None
    }
    return msgspec.structs.replace(_figures(cycle, why), **stages)


def _figures(record: _Record, why: str) -> _Record:
    """The record with each :class:`Figure` that has a value marked stale."""
    stale = {
        field: msgspec.structs.replace(figure, stale=True, why=why)
        for field in record.__struct_fields__
        if isinstance(figure := getattr(record, field), Figure) and figure.value is not None
    }
    return msgspec.structs.replace(record, **stale)
