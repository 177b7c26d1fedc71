"""No snapshot, however odd its figures, breaks a panel or its width."""

from __future__ import annotations

import enum
import typing
from types import NoneType

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from panels import glyphs
from panels.acceptance import AcceptancePanel
from panels.cycle import CyclePanel
from panels.events import EventsPanel
from panels.gpus import Gpus
from panels.header import Header
from panels.launch import LaunchPanel
from panels.logtail import LogTail
from panels.operation import OperationPanel
from panels.rows import fit, width
from panels.targets import TargetsPanel
from tests.panels import builders

PANELS = (Header, Gpus, CyclePanel, AcceptancePanel, TargetsPanel, EventsPanel, LogTail, OperationPanel, LaunchPanel)
ODD_NUMBERS = (None, -1.0, 0.0, 0.3, 1e-12, 7.0, 1e18)
"""What JSON can carry: a snapshot has no NaN, it arrives as null."""
ODD_TEXTS = ("", *builders.HOSTILE)


def spoiled(value, draw, optional=False):
    """The same structure with some of its numbers and texts replaced by odd ones of the same type."""
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.fields(value)
        return msgspec.structs.replace(
            value,
            **{f.name: spoiled(getattr(value, f.name), draw, NoneType in typing.get_args(f.type)) for f in fields},
        )
    if isinstance(value, tuple):
        return tuple(spoiled(item, draw) for item in value[:12])
    if isinstance(value, (bool, enum.Enum, dict)) or value is None:
        return value
    if isinstance(value, float):
        odd = draw(ODD_NUMBERS) if draw((False, False, True)) else value
        return value if odd is None and not optional else odd
    if isinstance(value, str):
        return draw(ODD_TEXTS) if draw((False, False, True)) else value
    return value


@pytest.mark.parametrize("ascii_", [False, True])
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    situation=st.sampled_from(sorted(builders.SITUATIONS)),
    cells=st.integers(1, 220),
    rows=st.integers(0, 30),
    random=st.randoms(use_true_random=False),
)
def test_a_panel_draws_whatever_it_is_given(ascii_, situation, cells, rows, random):
    glyphs.use(ascii=ascii_)
    snapshot = builders.SITUATIONS[situation]()
    odd = spoiled(snapshot, random.choice)
    odd = msgspec.structs.replace(odd, at_s=snapshot.at_s, schema=snapshot.schema)
    for kind in PANELS:
        panel = kind()
        drawn = [*panel.body(odd, cells, rows), panel.headline(odd), panel.status(odd)]
        for row in drawn:
            assert width(fit(row, cells)) == cells
            shown = "".join(text for text, _ in row)
            assert "\x1b" not in shown
            assert shown.isprintable()
            assert not ascii_ or shown.isascii()
