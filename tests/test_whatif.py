"""What-if arithmetic on the story's rig and on rigs that say little; published drafters; the curve."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console import economics, references, rig
from console.whatif import DEEPEST, LIMITS, Measured, Slider, WhatIf, measured
from panels import glyphs
from panels.curve import curve
from panels.rows import width


def snapshot(*, depth: int = 2, accept_len: float = 2.0, verify_ms: float | None = 25.0) -> rig.Snapshot:
    """The story: 82 tok/s without speculation, a 30 ms cycle at depth 2."""
    baseline = rig.Baseline(tok_s=82.0, at_s=1.0)
    found = economics.targets(baseline, 30.0, depth, accept_len, [100.0, 150.0], verify_ms=verify_ms)
    stage = rig.Stage(mean_ms=verify_ms) if verify_ms is not None else rig.Stage()
    return rig.Snapshot(targets=found, cycle=rig.Cycle(verify=stage, draft=rig.Stage(mean_ms=2.0)))


def test_untouched_it_says_what_the_rig_says():
    what = WhatIf(measured(snapshot()))
    assert what.cycle_ms(2) == pytest.approx(30.0)
    assert what.accept_len(2) == pytest.approx(2.0)
    assert what.speed_tok_s(2) == pytest.approx(66.67, abs=0.01)
    assert what.speed_tok_s(0) == 82.0
    assert what.targets().verdict is rig.Verdict.LOSES
    assert [goal.tok_s for goal in what.targets().goals] == [82.0, 100.0, 150.0]
    assert what.live.step_ms == pytest.approx(2.0), "the draft stage holds depth - 1 forwards"
    assert what.best_depth() == (0, 82.0)


def test_a_faster_verify_turns_the_verdict_and_zero_turns_it_back():
    what = WhatIf(measured(snapshot()))
    for _ in range(14):
        what = what.moved(Slider.VERIFY, -1)
    assert what.value(Slider.VERIFY) == pytest.approx(18.0)
    assert what.targets().verdict is rig.Verdict.PAYS
    assert what.targets().break_even_accept_len == pytest.approx(82 * 23 / 1000)
    assert what.back(Slider.VERIFY).targets() == WhatIf(measured(snapshot())).targets()
    assert what.moved(Slider.DEPTH, 1).back().assumed == {}


def test_goals_become_reachable_with_depth():
    what = WhatIf(measured(snapshot()))
    assert not what.targets().goals[2].reachable, "150 tok/s needs accept_len 4.5"
    deeper = what.moved(Slider.DEPTH, 3)
    assert deeper.depth == 5
    assert deeper.cycle_ms(5) == pytest.approx(36.0)
    goal = deeper.targets().goals[2]
    assert goal.reachable
    assert goal.accuracy_at_depth == pytest.approx(economics.accuracy_for(150 * 0.036, 5))


def test_measured_positions_are_used_and_carried_on_beyond_their_end():
    shares = [rig.Share(value, value, value, 100) for value in (0.6, 0.5)]
    positions = tuple(rig.Position(index, share) for index, share in enumerate(shares, 1))
    found = msgspec.structs.replace(snapshot(), acceptance=rig.Acceptance(positions=positions))
    what = WhatIf(measured(found))
    assert what.accept_len(2) == pytest.approx(1 + 0.6 + 0.3)
    assert what.accept_len(3) == pytest.approx(1 + 0.6 + 0.3 + 0.15)
    assumed = what.moved(Slider.ACCURACY, 0)
    assert assumed.accept_len(3) == pytest.approx(economics.accept_len_constant(assumed.value(Slider.ACCURACY), 3))


def test_a_cycle_without_stages_stands_as_verify():
    what = WhatIf(measured(snapshot(verify_ms=None)))
    assert what.value(Slider.VERIFY) == 30.0
    assert not what.live.split


def test_nothing_measured_is_assumed_step_by_step():
    what = WhatIf(measured(rig.Snapshot()))
    assert what.best_depth() is None
    assert what.speed_tok_s(3) is None
    for slider in Slider:
        what = what.moved(slider, 1)
    assert what.speed_tok_s(what.depth) > 0
    assert what.targets().goals[0].tok_s == what.value(Slider.BASELINE)


@given(st.lists(st.tuples(st.sampled_from(Slider), st.sampled_from([-10, -1, 1, 10])), max_size=60))
def test_no_key_leads_out_of_what_can_be_true(moves):
    what = WhatIf(measured(snapshot()))
    for slider, steps in moves:
        what = what.moved(slider, steps)
        low, high = LIMITS[slider]
        assert low <= what.value(slider) <= high
    targets = what.targets()
    assert targets.speed_tok_s is not None
    assert math.isfinite(targets.speed_tok_s)
    best = what.best_depth()
    assert best is not None
    assert all(best[1] >= (what.speed_tok_s(depth) or 0.0) for depth in range(DEEPEST + 1))


def test_a_step_moves_and_the_opposite_one_moves_back():
    what = WhatIf(Measured(verify_ms=30.0))
    assert what.moved(Slider.VERIFY, 1).value(Slider.VERIFY) == 30.5
    assert what.moved(Slider.VERIFY, 1).moved(Slider.VERIFY, -1).value(Slider.VERIFY) == 30.0


def test_published_figures_agree_with_the_formula():
    found = {drafter.name: drafter for drafter in references.published()}
    assert all(drafter.source and drafter.depth == 3 for drafter in found.values())
    assert all(1 <= low <= high <= drafter.depth + 1 for drafter in found.values() for low, high in [drafter.span])
    kimi = found["AQ-MedAI/Kimi-K2-Instruct-eagle3"]
    shares = [round(100 * kimi.accuracy(value), 1) for value in kimi.accept_len.values()]
    assert shares == [88.7, 84.6, 91.0]


def cells_of(rows):
    return ["".join(text for text, _ in row) for row in rows]


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize(("cells", "rows"), [(20, 4), (60, 9), (130, 30)])
def test_the_curve_fills_its_place(cells, rows, ascii_only):
    glyphs.use(ascii=ascii_only)
    try:
        drawn = curve(lambda x: x * x, 0, 10, cells, rows, threshold=50, marks=[(5, "o", "value")], ticks=[(5, "five")])
        assert len(drawn) == rows
        assert {width(row) for row in drawn} == {cells}
        text = cells_of(drawn)
        assert "five" in text[-1]
        assert text[-2][8 + round(5 / 10 * (cells - 9))] == "o"
        assert "100" in text[0]
        if rows > 4:
            assert any(line.strip().startswith("50") for line in text)
        if ascii_only:
            assert all(line.isascii() for line in text)
    finally:
        glyphs.use(ascii=False)


def test_the_curve_rises_where_the_function_does():
    text = cells_of(curve(lambda x: x, 0, 1, 40, 10))
    lowest, highest = text[7][8:].rstrip(), text[0][8:]
    assert len(lowest) < 20
    assert highest.strip()
    assert not highest[:20].strip()


@pytest.mark.parametrize(
    ("cells", "rows", "low", "high"), [(5, 9, 0, 1), (60, 3, 0, 1), (60, 9, 1, 1), (60, 9, 0, math.inf)]
)
def test_without_room_or_range_there_is_no_curve(cells, rows, low, high):
    assert curve(lambda x: x, low, high, cells, rows) == []
    assert all(not row[-1][0].strip() for row in curve(lambda _: None, 0, 1, 30, 6)[:4] if row[-1][1] == "graph")
