"""The probe in the real SGLang on the CPU, one rank: feed, live depth, live swap, under a load that checks every token."""

from __future__ import annotations

import json
import math
import shutil
import time

import pytest

from console.engine.feed import FeedReader
from console.engine.http import EngineClient
from console.engine.live import LiveControl
from console.errors import ConsoleError
from tests.probe.checkpoints import Tensor, numbers_of, read, variant, whole_numbers, zeros
from tests.real.load import Load
from tests.real.probe_engine import ProbeEngine, missing
from tests.real.rig import Places

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def places():
    found = Places()
    if why := missing(found):
        pytest.skip(why)
    return found


@pytest.fixture(scope="module")
def engine(places, tmp_path_factory):
    made = ProbeEngine(tmp_path_factory.mktemp("probe"), places)
    try:
        made.start()
        yield made
    finally:
        made.end()


@pytest.fixture
async def live(engine):
    async with EngineClient(engine.url) as client:
        yield LiveControl(client, engine.probe_dir, engine.tp)


@pytest.fixture
def feed(engine):
    with FeedReader(engine.probe_dir) as reader:
        reader.windows()
        yield reader


def under_load(engine, **options):
    return Load(engine.url, engine.places.checkpoints, **{"clients": 2, "tokens": 48, **options})


def settled(feed, seconds=20.0):
    """The counters once nothing moves any more."""
    deadline = time.monotonic() + seconds
    before = None
    while time.monotonic() < deadline:
        time.sleep(0.6)
        (message,) = feed.poll()
        if before is not None and message.acceptance == before.acceptance and message.seq > before.seq:
            return message
        before = message
    raise AssertionError("the counters do not come to rest")


def rounds_after(feed, steps, seconds=60.0):
    """One rank's window once it holds so many batches; the windows before are added up by reading late."""
    (start,) = feed.poll()
    deadline = time.monotonic() + seconds
    while feed.poll()[0].acceptance.steps - start.acceptance.steps < steps:
        assert time.monotonic() < deadline, f"only {feed.poll()[0].acceptance} after {start.acceptance}"
        time.sleep(0.1)
    return feed.windows()[0]


def good(load):
    result = load.stop()
    assert result.requests
    assert not result.failed
    assert not result.wrong
    return result


def test_the_feed_says_what_is_there(engine, feed):
    (message,) = feed.poll()
    assert (message.rank, message.tp, message.sglang.split("+")[0]) == (0, 1, "0.5.23")
    assert set(message.hooks.values()) == {"on"}
    assert message.capabilities.candidate_steps == (0, 1, 2, 3, 5)
    assert message.adaptive
    assert message.pinned is None
    assert message.drafter.path == str((engine.places.checkpoints / "drafter-a").resolve())
    assert message.environment["SGLANG_ENABLE_METRICS_DEVICE_TIMER"] == "0"
    assert message.environment["NCCL_CUMEM_ENABLE"] == "0"  # SGLang's own setting: nobody outside can read it


async def test_positions_are_those_of_the_replies(engine, live, feed):
    await live.set_depth(3)
    before = settled(feed)
    load = under_load(engine)
    histogram = [0, 0, 0, 0]
    for start in (100, 900, 2000):
        prompt = load.expected(load._cycle[start], 5)
        answer = load.ask(prompt, 64)
        assert answer["output_ids"] == load.expected(prompt[-1], 64)
        for accepted, count in enumerate(answer["meta_info"]["spec_correct_drafts_histogram"]):
            histogram[accepted] += count
    after = settled(feed)
    was, now = before.acceptance, after.acceptance
    assert now.rounds - was.rounds == sum(histogram)
    assert now.accepted - was.accepted == sum(index * count for index, count in enumerate(histogram))
    assert now.drafted - was.drafted == 3 * sum(histogram)
    for position in range(3):
        hits = now.hits[position] - (was.hits[position] if position < len(was.hits) else 0)
        tries = now.tries[position] - (was.tries[position] if position < len(was.tries) else 0)
        assert hits == sum(histogram[position + 1 :])
        assert tries == sum(histogram[position:])


async def test_stages_add_up_to_the_cycle(engine, live, feed):
    await live.set_depth(3)
    with under_load(engine) as load:
        rounds_after(feed, 3)
        window = rounds_after(feed, 40)
        good(load)
    stages = {name: window.stages[name] for name in ("draft", "verify", "extend")}
    assert all(stage.count >= 40 for stage in stages.values())
    assert all(stage.p50_ms <= stage.p95_ms <= stage.max_ms for stage in stages.values())
    parts = sum(stage.mean_ms for stage in stages.values())
    cycle = window.stages["cycle"]
    assert parts < cycle.mean_ms < 1.5 * parts
    assert set(cycle.by_batch) <= {1, 2}
    assert sum(count for count, _ in cycle.by_batch.values()) == cycle.count


async def test_depth_changes_within_two_rounds_while_requests_run(engine, live, feed):
    with under_load(engine) as load:
        rounds_after(feed, 3)
        for depth in (0, 1, 2, 3, 5):
            seen = feed.poll()[0]
            await live.set_depth(depth)
            pinned_s = time.time()
            window = rounds_after(feed, 12)
            message = window.newest
            assert (message.depth, message.pinned) == (depth, depth)
            if seen.depth != depth:
                at_s, _, to, by = message.switches[-1]
                assert (to, by) == (depth, "console")
                assert at_s - pinned_s < 2 * window.stages["cycle"].max_ms / 1e3
            clean = rounds_after(feed, 12)
            assert clean.drafted == depth * clean.rounds
            assert (
                len([tries for tries in clean.tries if tries]) <= depth
            )  # a deep position may not be reached in few rounds
        with pytest.raises(ConsoleError, match=r"depth 4 was not built at the start; there are 0, 1, 2, 3, 5"):
            await live.set_depth(4)
        assert rounds_after(feed, 3).newest.pinned == 5
        await live.set_depth(None)
        message = rounds_after(feed, 20).newest
        assert message.pinned is None
        assert message.switches[-1][3] == "adaptive"  # drafter a is too weak for 5: the policy leaves it
        good(load)


async def accept_len(feed):
    rounds_after(feed, 4)
    return rounds_after(feed, 50).accept_len


async def test_swap_there_and_back_while_requests_run(engine, live, feed):
    places = engine.places
    await live.set_depth(3)
    with under_load(engine) as load:
        first = feed.poll()[0].drafter
        assert await accept_len(feed) == pytest.approx(places.accept_len("drafter-a", 3), abs=0.35)
        await live.swap(str(places.checkpoints / "drafter-b"))
        assert "stage read" in live.last.seconds
        assert await accept_len(feed) == pytest.approx(places.accept_len("drafter-b", 3), abs=0.35)
        second = feed.poll()[0].drafter
        assert second.path == str((places.checkpoints / "drafter-b").resolve())
        assert second.checksum == live.last.checksums[0] != first.checksum
        assert set(second.resident) == {first.path, second.path}
        await live.swap(str(places.checkpoints / "drafter-a"))
        assert not any(phase.startswith("stage") for phase in live.last.seconds)  # it was kept: nothing is read
        assert await accept_len(feed) == pytest.approx(places.accept_len("drafter-a", 3), abs=0.35)
        assert feed.poll()[0].drafter.checksum == first.checksum
        good(load)


async def test_the_bank_keeps_no_more_than_it_may(engine, live, feed):
    other = str(engine.places.checkpoints / "drafter-b")
    home = feed.poll()[0].drafter
    await live.swap(other, resident=0)
    assert settled(feed).drafter.resident == (other,)
    await live.swap(home.path)
    assert "stage read" in live.last.seconds
    assert settled(feed).drafter.checksum == home.checksum


def nan(tensor: Tensor) -> Tensor:
    return Tensor(tensor.dtype, tensor.shape, b"\xc0\x7f" + tensor.data[2:])


@pytest.fixture
def broken(places, tmp_path):
    """What must be refused -> (folder, reason)."""
    source = places.checkpoints / "drafter-b"
    tensors = read(source / "model.safetensors")
    d2t = numbers_of(tensors["d2t"])
    cut = tmp_path / "cut"
    shutil.copytree(source, cut)
    (cut / "model.safetensors").write_bytes((source / "model.safetensors").read_bytes()[:-100_000])
    config = variant(source, tmp_path / "config")
    values = json.loads((config / "config.json").read_text())
    (config / "config.json").write_text(json.dumps({**values, "rope_theta": 5e5}))
    return {
        "other hidden size": (places.checkpoints / "drafter-bad", "hidden_size"),
        "no folder": (tmp_path / "nowhere", "no such folder"),
        "cut off": (cut, "cut off"),
        "other rope": (config, "rope"),
        "tensor missing": (variant(source, tmp_path / "less", fc__weight=None), "tensors are missing: fc.weight"),
        "tensor unknown": (variant(source, tmp_path / "more", extra__weight=zeros([4])), "tensors that the running"),
        "other shape": (
            variant(source, tmp_path / "shape", norm__weight=zeros([8])),
            "norm.weight: checkpoint \\[8\\]",
        ),
        "not finite": (variant(source, tmp_path / "nan", fc__weight=nan(tensors["fc.weight"])), "NaN or infinity"),
        "no d2t": (variant(source, tmp_path / "unmapped", d2t=None), "d2t"),
        "d2t outside": (variant(source, tmp_path / "out", d2t=whole_numbers([*d2t[:-1], 5000])), "outside"),
        "d2t twice": (variant(source, tmp_path / "twice", d2t=whole_numbers([*d2t[:-1], d2t[-2] - 1])), "increasing"),
    }


async def test_what_does_not_fit_is_refused_and_the_old_one_serves_on(engine, live, feed, broken):
    before = feed.poll()[0].drafter
    with under_load(engine) as load:
        for folder, why in broken.values():
            with pytest.raises(ConsoleError, match=why):
                await live.swap(str(folder))
            with pytest.raises(ConsoleError, match=f"nothing loaded.*{why}"):  # also without reading it first
                await live._command({"op": "swap", "path": str(folder)}, "swap", 60)
        rounds_after(feed, 10)
        good(load)
    after = settled(feed).drafter
    assert (after.path, after.checksum) == (before.path, before.checksum)
    assert (await live.ping()).checksums == {0: before.checksum}


async def test_another_token_map_is_taken_over(engine, live, feed, tmp_path):
    source = engine.places.checkpoints / "drafter-b"
    tensors = read(source / "model.safetensors")
    ids = [index + offset for index, offset in enumerate(numbers_of(tensors["d2t"]))]
    unused = sorted(set(range(4096)) - set(ids))
    for token in unused[:100]:  # an unused token takes the place of the next used one above it
        place = next((index for index, used in enumerate(ids) if used > token), None)
        if place is not None and token > (ids[place - 1] if place else -1):
            ids[place] = token
    other = variant(source, tmp_path / "map", d2t=whole_numbers([token - index for index, token in enumerate(ids)]))
    await live.set_depth(3)
    home = feed.poll()[0].drafter
    with under_load(engine) as load:
        await live.swap(str(source))
        plain = live.last.checksums[0]
        await live.swap(str(other))
        assert live.last.checksums[0] != plain  # nothing but the map differs
        assert await accept_len(feed) > engine.places.accept_len("drafter-a", 3) + 0.4
        await live.swap(home.path)
        good(load)
    assert settled(feed).drafter.checksum == home.checksum


async def test_a_shared_embedding_is_left_alone(engine, live, feed, tmp_path):
    source = engine.places.checkpoints / "drafter-b"
    embedding = read(engine.places.checkpoints / "target" / "model.safetensors")["model.embed_tokens.weight"]
    poison = variant(source, tmp_path / "embed", embed_tokens__weight=zeros(embedding.shape))
    home = feed.poll()[0].drafter
    await live.set_depth(3)
    with under_load(engine) as load:
        await live.swap(str(poison))
        assert await accept_len(feed) == pytest.approx(engine.places.accept_len("drafter-b", 3), abs=0.35)
        await live.swap(home.path)
        good(load)


async def test_sglang_keeps_its_own_keys(engine, live):
    async with EngineClient(engine.url) as client:
        assert await client.set_internal_state({"speculative_accept_threshold_single": 1.0}) == [True]
        assert await client.set_internal_state({"no_such_key": 1}) == [False]
        assert await client.set_internal_state({"spec_console_cmd": 1}) == [False]  # a command nobody has written
    assert math.isfinite((await live.ping()).round_trip_s)
    assert engine.alive
