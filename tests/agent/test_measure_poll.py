"""Asking the engine: rates, back-off, and one broken endpoint that delays no other."""

import asyncio
import itertools
import json
import time
from pathlib import Path

import pytest

from console import rig
from console.agent.engine_feed import LOADS, METRICS, PING, SERVER_INFO, EngineFeed
from console.agent.figures import METRICS_OFF
from console.agent.poll import Endpoint, Poller

CAPTURE = Path(__file__).parents[1] / "fixtures/h200-0.5.17/main"


def endpoint(fetch, apply=lambda answer, at_s: None, **options):
    return Endpoint("/x", **({"period_s": 0.01, "timeout_s": 0.05} | options), fetch=fetch, apply=apply)


async def wait_for(condition, timeout_s=3.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        await asyncio.sleep(0.005)


async def test_an_answer_is_taken_with_its_time():
    taken = []

    async def fetch():
        return {"a": 1}

    asked = endpoint(fetch, lambda answer, at_s: taken.append((answer, at_s)), clock=lambda: 42.0)
    await asked.ask()
    assert taken == [({"a": 1}, 42.0)]
    assert (asked.answered_at_s, asked.error, asked.failures) == (42.0, "", 0)


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (OSError("Connection refused"), "/x: Connection refused"),
        (ValueError("two\nlines\tof text"), "/x: two lines of text"),
        (RuntimeError(), "/x: RuntimeError"),
        (RuntimeError("x" * 10_000), "/x: " + "x" * 296),
    ],
)
async def test_any_failure_is_one_line(raised, said):
    async def fetch():
        raise raised

    asked = endpoint(fetch)
    await asked.ask()
    assert (asked.error, asked.failures, asked.answered_at_s) == (said, 1, None)


async def test_an_answer_that_cannot_be_taken_is_a_failure():
    async def fetch():
        return 1

    def apply(_answer, _at_s):
        raise KeyError("loads")

    asked = endpoint(fetch, apply)
    await asked.ask()
    assert asked.error == "/x: 'loads'"


async def test_a_slow_endpoint_is_given_up():
    async def fetch():
        await asyncio.sleep(60)

    asked = endpoint(fetch)
    started = time.monotonic()
    await asked.ask()
    assert time.monotonic() - started < 1.0
    assert asked.error == "/x did not answer within 0.05 s"


async def test_back_off_and_recovery():
    times = []
    broken = True

    async def fetch():
        times.append(time.monotonic())
        if broken:
            raise OSError("no")

    asked = endpoint(fetch, period_s=0.01, backoff_max_s=0.08)
    poller = Poller([asked])
    poller.start()
    await wait_for(lambda: len(times) >= 7)
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert pauses[0] >= 0.019
    assert pauses[1] >= 0.039
    assert all(pause >= 0.079 for pause in pauses[2:])
    broken = False
    await wait_for(lambda: asked.error == "")
    count = len(times)
    await asyncio.sleep(0.1)
    assert len(times) - count >= 5
    await poller.stop()


async def test_one_that_hangs_delays_no_other():
    answers = []

    async def hangs():
        await asyncio.sleep(60)

    async def quick():
        answers.append(time.monotonic())

    slow = Endpoint("/slow", period_s=0.01, timeout_s=30.0, fetch=hangs, apply=lambda *_: None)
    poller = Poller([slow, endpoint(quick)])
    poller.start()
    await asyncio.sleep(0.2)
    await poller.stop()
    assert len(answers) >= 10
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("poll ")]


# ---------------------------------------------------------------------------- a whole engine


class FakeClient:
    """Answers with the bodies of a real capture."""

    def __init__(self):
        self.asked = dict.fromkeys((PING, LOADS, METRICS, SERVER_INFO), 0)
        self.closed = False
        self.broken = {}

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        self.closed = True

    def _body(self, route, file):
        self.asked[route] += 1
        if route in self.broken:
            raise self.broken[route]
        return (CAPTURE / file).read_text() if file else None

    async def ping(self):
        self._body(PING, "")

    async def model_info(self):
        return json.loads((CAPTURE / "http_idle/model_info.txt").read_text())

    async def server_info(self):
        return json.loads(self._body(SERVER_INFO, "http_load/server_info.txt"))

    async def loads(self):
        first = self.asked[LOADS] == 0
        return json.loads(self._body(LOADS, f"http_{'idle' if first else 'load'}/v1_loads.txt"))

    async def metrics_text(self):
        return self._body(METRICS, f"metrics_load/0{min(9, self.asked[METRICS])}.prom")


@pytest.fixture
async def feed(monkeypatch):
    monkeypatch.setattr("console.agent.poll.LOADS_PERIOD_S", 0.01)
    monkeypatch.setattr("console.agent.poll.METRICS_PERIOD_S", 0.05)
    monkeypatch.setattr("console.agent.poll.PING_PERIOD_S", 0.02)
    made = EngineFeed(None, client=FakeClient())
    made.start()
    yield made
    await made.stop()
    assert made._client.closed


async def test_a_real_engine_is_followed(feed):
    await wait_for(lambda: feed._metrics.window is not None and feed._loads.window is not None)
    await wait_for(lambda: feed.facts.version)
    assert (feed.facts.version, feed.facts.algorithm, feed.facts.depth_launch) == ("0.5.17", "EAGLE3", 5)
    assert feed.arguments["attention_backend"] == "triton"
    assert feed.why == {}
    assert feed.error == ""
    assert feed.answered_at_s == pytest.approx(time.time(), abs=2)
    sources = [window.source for window in feed.windows]
    assert sources == [rig.Source.LOADS, rig.Source.METRICS]
    assert [gauges.source for gauges in feed.gauges] == [
        rig.Source.LOADS,
        rig.Source.METRICS,
        rig.Source.SERVER_INFO,
    ]
    await wait_for(lambda: feed._client.asked[LOADS] > 20)
    assert feed._client.asked[LOADS] > 2 * feed._client.asked[METRICS]


async def test_metrics_that_are_off_take_nothing_else_with_them(feed):
    from console.engine.http import EngineRefused

    feed._client.broken[METRICS] = EngineRefused("the server has no GET /metrics (404)", status=404)
    await wait_for(lambda: feed.poller.endpoints[METRICS].error)
    await wait_for(lambda: feed._loads.window is not None)
    assert feed.why["metrics"] == f"{METRICS_OFF}: /metrics: the server has no GET /metrics (404)"
    assert "loads" not in feed.why


async def test_an_engine_that_goes_away(feed):
    await wait_for(lambda: feed._loads.window is not None)
    for route in feed._client.asked:
        feed._client.broken[route] = OSError("Connection refused")
    await wait_for(lambda: feed.error)
    assert feed.error == "/ping: Connection refused"
    await wait_for(lambda: "loads" in feed.why)
    assert feed._loads.window is not None  # what was known stays, and grows old


async def test_a_server_that_answers_again_is_asked_at_once():
    answers = iter([ConnectionError("not yet"), "first", "second"])
    taken = []

    async def fetch():
        answer = next(answers, None)
        if isinstance(answer, Exception):
            raise answer
        return answer

    endpoint = Endpoint("/x", period_s=60.0, timeout_s=1.0, fetch=fetch, apply=lambda answer, _at: taken.append(answer))
    task = asyncio.create_task(endpoint.run())
    while not endpoint.failures:
        await asyncio.sleep(0.001)
    endpoint.wake()
    while not taken:
        await asyncio.sleep(0.001)
    endpoint.wake()
    await asyncio.sleep(0.02)
    task.cancel()
    assert taken == ["first"], "one that answers keeps its period"
