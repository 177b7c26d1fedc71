"""The calibrator against an engine whose truth is known: two stages of the story's rig, with other traffic beside."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console import calibration
from console.agent.calibrate import LABEL, Calibrator, Wish, decode_speed
from console.calibration import Calibration, Cell, choices, loses_from, nearest_concurrency, speed_of, unlike
from console.engine.prompts import load_prompts
from console.errors import ConsoleError

CYCLE_MS = {0: 12.2, 1: 28.0, 2: 30.0, 3: 31.5}
P = 0.5


class Engine:
    """Answers at once with the times a real one would have taken."""

    def __init__(self, *, slow_down: float = 0.0, fail_from: int = 10**9) -> None:
        self.depth = 3
        self.visits: list[tuple[int, str]] = []
        self.rng = random.Random(5)
        self.active = 0
        self.calls = 0
        self.slow_down, self.fail_from = slow_down, fail_from
        self.rounds = self.us = self.bs = self.generated = 0.0
        self.stages: dict[str, tuple[float, int]] = {}

    async def set_depth(self, depth: int) -> None:
        self.depth = depth

    async def loads(self):
        moments = [self.rounds, self.bs, self.us, 0.0, 0.0, self.generated]
        return {
            "version": "0.5.23",
            "loads": [{"dp_rank": 0, "timestamp": self.us + 1, "num_running_reqs": 0, "decode_moments": moments}],
        }

    async def generate(self, payload, *, deadline_s=600.0):
        self.calls += 1
        if self.calls >= self.fail_from:
            raise ConsoleError("the engine is gone")
        assert payload["rid"].startswith(LABEL)
        self.active += 1
        await asyncio.sleep(0)
        share = self.active
        await asyncio.sleep(0)
        self.active -= 1
        wanted = payload["sampling_params"]["max_new_tokens"]
        cycle = (CYCLE_MS[self.depth] * (1 + 0.2 * (share - 1)) + self.slow_down * self.calls) / 1000
        tokens, rounds, histogram = 1, 0, [0] * (self.depth + 1)
        while tokens < wanted:
            hit = 0
            while hit < self.depth and self.rng.random() < P:
                hit += 1
            histogram[hit] += 1
            rounds += 1
            tokens += 1 + hit
        seconds = rounds * cycle
        self.rounds += rounds / share
        self.us += seconds * 1e6 / share
        self.bs += rounds
        self.generated += tokens - 1
        for stage, part in (("verify", 0.8), ("draft", 0.1)):
            old = self.stages.get(stage, (0.0, 0))
            self.stages[stage] = (old[0] + seconds * part, old[1] + rounds)
        if wanted > 64:
            self.visits.append((self.depth, payload["rid"]))
        meta = {
            "completion_tokens": tokens,
            "prefill_finished_time": 1000.0,
            "request_finished_ts": 1000.0 + seconds,
            "e2e_latency": seconds + 1.0,
            "spec_correct_drafts_histogram": histogram if self.depth else [],
        }
        return {"text": "x", "meta_info": meta}


async def calibrate(engine: Engine, wish: Wish, **more) -> Calibration:
    said = []
    calibrator = Calibrator(
        engine, engine.set_depth, settle_s=0.0, contiguous_s=0.0, progress=lambda *what: said.append(what), **more
    )
    cells = await calibrator.run(wish, load_prompts())
    assert said[-1][0] == said[-1][1]
    return Calibration(at_s=1.0, fingerprint="f", drafter="d", prompts="p", sampling=wish.sampling, cells=cells)


async def test_finds_the_story_without_being_told():
    engine = Engine()
    result = await calibrate(
        engine, Wish((0, 1, 2, 3), (1,), repetitions=4, tokens=2000), stages=lambda: dict(engine.stages)
    )
    by_depth = {cell.depth: cell for cell in result.cells}
    assert by_depth[0].stream_tok_s.median == pytest.approx(82, rel=0.01)
    for depth in (1, 2, 3):
        accept_len = sum(P**i for i in range(depth + 1))
        cell = by_depth[depth]
        assert cell.accept_len == pytest.approx(accept_len, rel=0.03)
        assert cell.stream_tok_s.median == pytest.approx(1000 * accept_len / CYCLE_MS[depth], rel=0.04)
        assert cell.cycle_ms == pytest.approx(CYCLE_MS[depth], rel=0.01)
        assert cell.verify_ms == pytest.approx(0.8 * CYCLE_MS[depth], rel=0.01)
        assert abs(cell.unexplained_share) < 0.03
        assert [position.conditional.value for position in cell.positions] == pytest.approx([P] * depth, abs=0.05)
    (choice,) = choices(result)
    assert (choice.depth, choice.pays) == (0, False)
    assert loses_from(result) == 1


async def test_the_probes_cycle_leaves_out_what_the_engine_counts_as_a_round():
    """A pause between two requests falls into the engine's own decode moments, not into the probe's rounds."""
    engine = Engine()

    async def loads_with_pauses(plain=engine.loads):
        engine.us += 1.3e6
        return await plain()

    engine.loads = loads_with_pauses
    cycles = {"cycle": (0.0, 0)}

    def stages():
        seconds, rounds = engine.stages.get("verify", (0.0, 0))
        return cycles | {"cycle": (seconds / 0.8, rounds)}

    result = await calibrate(engine, Wish((0,), (1,), repetitions=2, tokens=500), stages=stages)
    assert result.cells[0].cycle_ms == pytest.approx(12.2, rel=0.01)
    assert abs(result.cells[0].unexplained_share) < 0.02


async def test_cells_are_interleaved_against_drift():
    engine = Engine(slow_down=0.05)
    await calibrate(engine, Wish((1, 2), (1,), repetitions=2, tokens=100))
    assert [depth for depth, _ in engine.visits] == [1, 2, 2, 1]
    assert len({rid for _, rid in engine.visits}) == 4


async def test_an_engine_that_dies_is_one_line():
    engine = Engine(fail_from=4)
    with pytest.raises(ConsoleError, match="gone"):
        await calibrate(engine, Wish((1,), (2,), repetitions=3, tokens=100))


def cell(depth: int, concurrency: int, speed: float, width: float = 0.5) -> Cell:
    found = calibration.Speed(speed, speed - width, speed + width, 5)
    return Cell(depth=depth, concurrency=concurrency, stream_tok_s=found, total_tok_s=found)


def test_best_depth_per_concurrency_and_where_it_starts_to_lose():
    cells = (
        cell(0, 1, 82),
        cell(2, 1, 100),
        cell(3, 1, 100.4),
        cell(0, 16, 900),
        cell(2, 16, 800),
        cell(3, 16, 700),
        cell(0, 64, 1000),
        cell(2, 64, 600),
    )
    result = Calibration(at_s=1, fingerprint="f", drafter="d", prompts="p", sampling="s", cells=cells)
    low, middle, high = choices(result)
    assert (low.depth, low.also, low.pays) == (3, (2,), True)
    assert (middle.depth, middle.pays, high.pays) == (0, False, False)
    assert loses_from(result) == 16
    assert nearest_concurrency(result, 5) == 16
    assert nearest_concurrency(result, 2) == 1


def test_overlap_is_said_not_decided():
    result = Calibration(
        at_s=1, fingerprint="f", drafter="d", prompts="p", sampling="s", cells=(cell(0, 1, 82, 3), cell(2, 1, 84, 3))
    )
    assert choices(result)[0].pays is None
    assert loses_from(result) is None


def test_unlike_runs_are_not_compared():
    one = Calibration(at_s=1, fingerprint="f", drafter="d", prompts="p:1", sampling="greedy")
    other = Calibration(at_s=2, fingerprint="g", drafter="d", prompts="p:2", sampling="greedy")
    assert unlike(one, one) == ()
    assert len(unlike(one, other)) == 2


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        {"meta_info": 3},
        {"meta_info": {"completion_tokens": 1, "e2e_latency": 2}},
        {"meta_info": {"completion_tokens": "9", "e2e_latency": 2}},
        {"meta_info": {"completion_tokens": 9}},
    ],
)
def test_answers_that_do_not_tell(answer):
    assert decode_speed(answer) is None


@given(st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=20))
def test_speed_is_ordered(samples):
    speed = speed_of(samples)
    assert 0 <= speed.low <= speed.high
    assert min(samples) <= speed.median <= max(samples)


def test_prompts(tmp_path):
    shipped = load_prompts()
    assert len(shipped.items) == 16
    own = tmp_path / "own.jsonl"
    own.write_text('"one"\n\n{"prompt": "two"}\n{"input_ids": [1, 2]}\n[3, 4]\n')
    assert load_prompts(str(own)).items == (
        {"text": "one"},
        {"text": "two"},
        {"input_ids": [1, 2]},
        {"input_ids": [3, 4]},
    )
    own.write_text('"one"\n{"neither": 1}\n')
    with pytest.raises(ConsoleError, match="line 2"):
        load_prompts(str(own))
    with pytest.raises(ConsoleError, match="cannot read"):
        load_prompts(str(tmp_path / "none"))
