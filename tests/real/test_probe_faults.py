"""Faults put into the probe on the real SGLang: the server serves on, and the feed says what is off."""

from __future__ import annotations

import json
import time

import pytest

from console.engine.feed import FeedReader, between, status
from console.engine.http import EngineClient
from console.engine.live import LiveControl
from console.errors import ConsoleError
from tests.real.load import Load
from tests.real.probe_engine import ProbeEngine, missing
from tests.real.rig import Places

pytestmark = pytest.mark.real


@pytest.fixture
def start(tmp_path):
    """Start an engine; ended whatever happens."""
    places = Places()
    if why := missing(places):
        pytest.skip(why)
    made = []

    def begin(**options) -> ProbeEngine:
        made.append(ProbeEngine(tmp_path, places, **options))
        made[-1].start()
        return made[-1]

    yield begin
    for engine in made:
        engine.end()


def serves(engine, tokens=24):
    """One request, every token right."""
    load = Load(engine.url, engine.places.checkpoints)
    prompt = load.expected(load._cycle[77], 4)
    assert load.ask(prompt, tokens)["output_ids"] == load.expected(prompt[-1], tokens)


def wait(feed, true, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not (messages := feed.poll()) or not true(messages):
        assert time.monotonic() < deadline, messages
        time.sleep(0.1)
    return messages


async def test_an_exception_in_each_hook(start):
    engine = start()
    async with EngineClient(engine.url) as client:
        live = LiveControl(client, engine.probe_dir, 1)
        with FeedReader(engine.probe_dir) as feed:
            off = set()
            for hook in ("stages", "cycle", "acceptance"):
                await live.fault(kind="raise", hook=hook)
                serves(engine)
                off.add(hook)
                (message,) = wait(feed, lambda m, hook=hook: m[0].hooks[hook] != "on")
                assert message.hooks[hook] == "off: RuntimeError: injected fault"
                assert {name for name, state in message.hooks.items() if state != "on"} == off
            await live.fault(kind="raise", hook="feed")
            (message,) = feed.poll()
            wait(feed, lambda m: m[0].seq > message.seq + 4)  # one message is lost, the next one holds it all
            assert await live.set_depth(1) == "depth 1 is pinned"  # depth and swap need none of them
            await live.swap(str(engine.places.checkpoints / "drafter-b"))
            await live.fault(kind="raise", hook="commands")
            with pytest.raises(ConsoleError, match="commands: off: RuntimeError: injected fault"):
                await live.ping()
            with pytest.raises(ConsoleError, match="commands: off"):
                await live.set_depth(2)
            messages = wait(feed, lambda m: not m[0].capabilities.depth_live)
            found = status(messages)
            assert (found.depth_live, found.swap_live) == (False, False)
            assert "injected fault" in found.depth_why
            assert await client.set_internal_state({"speculative_accept_threshold_single": 1.0}) == [True]
    serves(engine)
    assert engine.alive


def test_a_probe_that_cannot_attach(start):
    engine = start(env={"SGLANG_CONSOLE_PROBE_FAULT_ATTACH": "1"})
    serves(engine)
    with FeedReader(engine.probe_dir) as feed:
        (message,) = wait(feed, bool)
    assert message.hooks == {"attach": "off: RuntimeError: injected fault"}
    found = status([message])
    assert not found.depth_live
    assert "did not attach" in found.swap_why


async def test_a_tree_is_counted_by_its_path_and_has_no_live_depth(start):
    engine = start(tree=True)
    load = Load(engine.url, engine.places.checkpoints)
    histogram = [0, 0, 0, 0]
    with FeedReader(engine.probe_dir) as feed:
        (before,) = wait(feed, bool)
        for place in (100, 900):
            prompt = load.expected(load._cycle[place], 5)
            answer = load.ask(prompt, 64)
            assert answer["output_ids"] == load.expected(prompt[-1], 64)
            for accepted, count in enumerate(answer["meta_info"]["spec_correct_drafts_histogram"]):
                histogram[accepted] += count
        rounds = before.acceptance.rounds + sum(histogram)
        (after,) = wait(feed, lambda m: m[0].acceptance.rounds >= rounds)
    window = between(before, after)
    assert window.rounds == sum(histogram)
    assert window.hits == tuple(sum(histogram[position:]) for position in (1, 2, 3))
    assert window.tries == tuple(sum(histogram[position:]) for position in (0, 1, 2))
    assert window.drafted == 5 * window.rounds  # the tree without its root
    async with EngineClient(engine.url) as client:
        live = LiveControl(client, engine.probe_dir, 1)
        assert live.capabilities().swap_live
        with pytest.raises(ConsoleError, match="started without adaptive tiers"):
            await live.set_depth(1)
        await live.swap(str(engine.places.checkpoints / "drafter-b"))
    serves(engine)


@pytest.mark.parametrize("tp", [2, pytest.param(8, marks=pytest.mark.long)])
async def test_ranks_change_together_or_not_at_all(start, tp):
    engine = start(tp=tp)
    checkpoints, last = engine.places.checkpoints, tp - 1
    other = str(checkpoints / "drafter-b")
    async with EngineClient(engine.url) as client:
        live = LiveControl(client, engine.probe_dir, tp)
        with FeedReader(engine.probe_dir) as feed:
            first = wait(feed, lambda m: len(m) == tp)
            home = {message.rank: message.drafter.checksum for message in first}
            assert len(set(home.values())) == tp  # each over its own shard
            load = Load(engine.url, checkpoints, clients=1, tokens=24 if tp == 2 else 8)
            with load:
                for phase, why in (("ready", "nothing loaded"), ("loaded", "rolled back")):
                    await live.fault(kind="refuse", phase=phase, rank=last)
                    with pytest.raises(ConsoleError, match=f"{why}: rank {last}: a test asked this rank to refuse"):
                        await live.swap(other)
                    await live.fault(kind="clear")
                    assert (await live.ping()).checksums == home
                await live.swap(other)
                assert all(live.last.checksums[rank] != checksum for rank, checksum in home.items())
                await live.swap(str(checkpoints / "drafter-a"))
                assert live.last.checksums == home
                await live.fault(kind="refuse", phase="depth", rank=0)
                with pytest.raises(ConsoleError, match="rank 0: a test asked this rank to refuse"):
                    await live.set_depth(1)
                assert {message.pinned for message in feed.poll()} == {None}
                await live.fault(kind="clear")
                await live.set_depth(2)
                both = wait(feed, lambda m: {message.depth for message in m} == {2})
                assert {message.pinned for message in both} == {2}
                await slow_rank_shows(live, feed, last)
                await live.fault(kind="raise", hook="commands", rank=last)
                with pytest.raises(ConsoleError, match=f"rank {last}: commands: off"):
                    await live.set_depth(1)
                silent = wait(feed, lambda m: not m[last].capabilities.depth_live)
                assert status(silent).depth_why == "commands: off: RuntimeError: injected fault"
                assert silent[0].pinned == 2  # the others waited for a vote, and let it be
            result = load.stop(300)
            assert result.requests
            assert (result.failed, result.wrong) == ([], 0)


async def slow_rank_shows(live, feed, rank, ms=300):
    await live.fault(kind="slow", rank=rank, ms=ms)
    time.sleep(2)
    before = {message.rank: message for message in feed.poll()}

    def worked(messages):
        return all(m.acceptance.steps >= before[m.rank].acceptance.steps + 8 for m in messages)

    windows = [between(before[message.rank], message) for message in wait(feed, worked, 240)]
    verify = {window.rank: window.stages["verify"].mean_ms for window in windows}
    others = [mean for number, mean in verify.items() if number != rank]
    assert verify[rank] - max(others) > 0.6 * ms, json.dumps(verify)
    await live.fault(kind="clear")
