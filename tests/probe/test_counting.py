"""Acceptance, rounds and stages on fakes of SGLang's objects."""

import statistics
import time
from collections import deque
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.probe.fakes import Batch, Request, Worker, resolve


@pytest.fixture
def worker():
    return Worker()


@pytest.fixture
def rounds(worker):
    from sglang_console_probe.rounds import Rounds

    made = Rounds(worker)
    made.install()
    return made


@pytest.fixture
def acceptance(rounds, worker):
    from sglang_console_probe.acceptance import Acceptance

    made = Acceptance(rounds, worker, topk=1)
    made.hook.enable()
    return made


def process(acceptance, result, accept_lens, batch):
    result.accept_lens = accept_lens
    return acceptance.around(resolve, (None, result, batch), {})


def test_positions_by_hand(acceptance, worker):
    batch = Batch(4)
    process(acceptance, worker.forward_batch_generation(batch), [1, 2, 4, 3], batch)
    acceptance.drain()
    counter = acceptance.counter
    assert (counter.steps, counter.rounds, counter.drafted, counter.accepted) == (1, 4, 12, 6)
    assert (counter.tries, counter.hits) == ([4, 3, 2], [3, 2, 1])


def test_requests_that_ended_before_are_left_out_but_not_those_that_end_now(acceptance, worker):
    batch = Batch([Request(ended=True), Request(), Request(is_retracted=True)])
    process(acceptance, worker.forward_batch_generation(batch), [4, 2, 4], batch)
    acceptance.drain()
    assert (acceptance.counter.rounds, acceptance.counter.accepted) == (1, 1)


def test_a_batch_of_ended_requests_counts_nothing(acceptance, worker):
    batch = Batch([Request(ended=True)])
    process(acceptance, worker.forward_batch_generation(batch), [4], batch)
    acceptance.drain()
    assert acceptance.counter.steps == 0


def test_depth_0_counts_rounds_without_tries(acceptance, worker):
    worker.speculative_num_steps = 0
    batch = Batch(2)
    process(acceptance, worker.forward_batch_generation(batch), [1, 1], batch)
    acceptance.drain()
    counter = acceptance.counter
    assert (counter.steps, counter.rounds, counter.drafted, counter.accepted, counter.tries) == (1, 2, 0, 0, [])


def test_the_depth_is_that_of_the_launch_not_of_now(acceptance, worker):
    batch = Batch(1)
    result = worker.forward_batch_generation(batch)
    worker.speculative_num_steps = 1  # under overlap the next round is launched before this result is read
    process(acceptance, result, [4], batch)
    acceptance.drain()
    assert acceptance.counter.hits == [1, 1, 1]


def test_branches_count_the_path_and_draft_the_tree(rounds, worker):
    from sglang_console_probe.acceptance import Acceptance

    acceptance = Acceptance(rounds, worker, topk=4)
    acceptance.hook.enable()
    batch = Batch(1)
    result = worker.forward_batch_generation(batch)
    result.speculative_num_draft_tokens = 16
    process(acceptance, result, [3], batch)
    acceptance.drain()
    assert (acceptance.counter.drafted, acceptance.counter.tries, acceptance.counter.hits) == (15, [1, 1, 1], [1, 1, 0])


def test_sglang_0_5_11_names_it_otherwise(acceptance, worker):
    batch = Batch(1)

    def old(processor, result, batch):
        result.num_accepted_drafts_per_req_cpu = [2]

    acceptance.around(old, (None, worker.forward_batch_generation(batch), batch), {})
    acceptance.drain()
    assert acceptance.counter.accepted == 2


@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1)), max_size=30
    )
)
def test_sums_hold(batches):
    from sglang_console_probe.counters import AcceptanceCounter

    counter = AcceptanceCounter()
    for depth, rows in batches:
        accepted = [min(count, depth) for count, _ in rows]
        counter.add(accepted, [left_out for _, left_out in rows], depth, depth)
    assert counter.accepted == sum(counter.hits)
    assert all(hit <= tried for hit, tried in zip(counter.hits, counter.tries, strict=True))
    assert all(later <= hit for hit, later in zip(counter.hits, counter.tries[1:], strict=False))
    assert counter.drafted <= 6 * counter.rounds


def test_cycles_are_times_between_rounds_that_follow(acceptance, rounds, worker):
    batch = Batch(3)
    for _ in range(4):
        result = worker.forward_batch_generation(batch)
        time.sleep(0.01)
        process(acceptance, result, [2, 2, 2], Batch(3))
    acceptance.drain()
    assert acceptance.cycle.count == 3
    assert 10 <= acceptance.cycle.sum_ms / 3 < 60
    assert set(acceptance.cycle.message()["by_batch"]) == {"3"}


@pytest.mark.parametrize("between", ["prefill", "command", "pause"])
def test_what_comes_between_is_no_cycle(acceptance, rounds, worker, between, monkeypatch):
    batch = Batch(1)
    process(acceptance, worker.forward_batch_generation(batch), [2], Batch(1))
    if between == "prefill":
        worker.forward_batch_generation(Batch(1, extend=True))
    elif between == "command":
        rounds.interrupt()
    else:
        rounds.last_result_s -= 60
    process(acceptance, worker.forward_batch_generation(batch), [2], Batch(1))
    acceptance.drain()
    assert acceptance.cycle.count == 0
    assert acceptance.counter.steps == 2


def test_switches_say_who(rounds, worker):
    worker.forward_batch_generation(Batch(1))
    worker.speculative_num_steps = 1
    worker.forward_batch_generation(Batch(1))
    rounds.pinned = True
    worker.speculative_num_steps = 5
    worker.forward_batch_generation(Batch(1))
    assert [switch[1:] for switch in rounds.switches] == [[3, 1, "adaptive"], [1, 5, "console"]]


def test_rounds_lost_in_the_queue_are_counted_and_break_the_cycle(acceptance, worker):
    from sglang_console_probe import acceptance as module

    for _ in range(module.QUEUE + 10):
        batch = Batch(1)
        process(acceptance, worker.forward_batch_generation(batch), [2], batch)
    acceptance.drain()
    assert acceptance.lost == 10
    assert acceptance.counter.steps == module.QUEUE
    assert acceptance.cycle.count == module.QUEUE - 1


@pytest.mark.parametrize("hook", ["acceptance", "cycle", "stages"])
def test_an_exception_turns_one_hook_off_and_the_engine_goes_on(acceptance, rounds, worker, hook):
    from sglang_console_probe.stages import Stages

    stages = Stages(worker, worker, None, cuda=False)
    stages.install()
    hooks = {"acceptance": acceptance.hook, "cycle": rounds.hook, "stages": stages.hook}
    hooks[hook].trap = True
    batch = Batch(1)
    assert process(acceptance, worker.forward_batch_generation(batch), [2], batch) == [2]
    assert worker.calls == ["draft", "verify", "extend"]
    assert {name for name, found in hooks.items() if not found.on} == {hook}
    assert hooks[hook].state == "off: RuntimeError: injected fault"
    assert process(acceptance, worker.forward_batch_generation(batch), [2], Batch(1)) == [2]


def test_an_exception_of_sglang_itself_passes_and_is_not_ours(acceptance, worker):
    def broken(processor, result, batch):
        raise ValueError("SGLang's own")

    with pytest.raises(ValueError, match="SGLang's own"):
        acceptance.around(broken, (None, SimpleNamespace(), Batch(1)), {})
    assert acceptance.hook.on


# --------------------------------------------------------------------------------------------------- stages


def taken(stages):
    found = [(span.stage, span.batch, span.ms) for span in stages.queue]
    stages.queue.clear()
    return found


def test_host_clock_times_each_stage(worker):
    from sglang_console_probe.stages import Stages

    stages = Stages(worker, worker, None, cuda=False)
    stages.install()
    stages.slow_s = 0.02
    worker.forward_batch_generation(Batch(5))
    found = taken(stages)
    assert [(stage, batch) for stage, batch, _ in found] == [("draft", 5), ("verify", 5), ("extend", 5)]
    assert found[1][2] >= 20 > found[0][2]


def test_idle_batches_are_not_timed(worker):
    from sglang_console_probe.stages import Stages

    stages = Stages(worker, worker, None, cuda=False)
    stages.install()
    worker.forward_batch_generation(Batch(0))
    assert taken(stages) == []


class FakeEvent:
    made = 0

    def __init__(self):
        type(self).made += 1
        self.done = False

    def record(self):
        self.done = False

    def query(self):
        return self.done

    def elapsed_time(self, other):
        assert self.done
        assert other.done
        return 2.5


def test_cuda_events_are_every_nth_never_waited_for_and_used_again(worker, monkeypatch):
    from sglang_console_probe import stages as module

    FakeEvent.made = 0
    stages = module.Stages(worker, worker, None, cuda=False)
    stages.clock = module.EventClock(stages.queue, every=4, new_event=FakeEvent)
    stages.install()
    for _ in range(8):
        worker.forward_batch_generation(Batch(2))
    assert taken(stages) == []  # the device has finished nothing yet
    assert FakeEvent.made == 2 * 3 * 2
    for span in stages.clock._pending:
        for event in span.token:
            event.done = True
    for _ in range(8):
        worker.forward_batch_generation(Batch(2))
    assert taken(stages) == [(stage, 2, 2.5) for stage in ("draft", "verify", "extend") * 2]
    before = FakeEvent.made
    for span in stages.clock._pending:
        for event in span.token:
            event.done = True
    for _ in range(8):
        worker.forward_batch_generation(Batch(2))
    assert FakeEvent.made == before


def test_a_device_that_never_finishes_costs_no_memory(worker):
    from sglang_console_probe import stages as module

    stages = module.Stages(worker, worker, None, cuda=False)
    stages.clock = module.EventClock(stages.queue, every=1, new_event=FakeEvent)
    stages.install()
    for _ in range(500):
        worker.forward_batch_generation(Batch(1))
    assert len(stages.clock._pending) <= module.PENDING + 1
    assert taken(stages) == []


def test_depth_0_rounds_start_at_verify(worker):
    from sglang_console_probe import stages as module

    stages = module.Stages(worker, worker, None, cuda=False)
    stages.clock = module.EventClock(stages.queue, every=2, new_event=FakeEvent)
    stages.install()
    for _ in range(6):
        worker.verify(Batch(1))
        worker._draft_extend_for_decode(Batch(1), None)
    assert [span.stage for span in stages.clock._pending] == ["verify", "extend"] * 3


class FakeTimer:
    """SGLang's DeviceTimer: intervals open inside ``wrap`` and are reported in that order, later."""

    def __init__(self):
        self._intervals = deque()
        self.reporters = []

    def add_reporter(self, reporter):
        self.reporters.append(reporter)

    def wrap(self, metadata):
        self._intervals.append(metadata["category"])

    def finish(self, *seconds):
        for value in seconds:
            category = self._intervals.popleft()
            for reporter in self.reporters:
                reporter(t=value, category=category)


class TimedWorker(Worker):
    def __init__(self, timer):
        super().__init__()
        self.timer = timer

    def forward_batch_generation(self, batch):
        if batch.forward_mode.is_extend():
            self.timer.wrap(metadata={"category": "extend"})
        return super().forward_batch_generation(batch)

    def draft(self, batch):
        for _ in range(2):  # an eager drafter: one interval a step
            self.timer.wrap(metadata={"category": "decode"})

    def verify(self, batch):
        self.timer.wrap(metadata={"category": "target_verify"})

    def _draft_extend_for_decode(self, batch, batch_result):
        self.timer.wrap(metadata={"category": "extend"})


def test_the_device_timer_is_split_by_stage_whatever_it_calls_them():
    from sglang_console_probe.stages import Stages

    timer = FakeTimer()
    timer.wrap(metadata={"category": "warm-up"})  # opened before the probe came
    worker = TimedWorker(timer)
    stages = Stages(worker, worker, timer, cuda=True)
    assert stages.clock.name == "device timer"
    stages.install()
    worker.forward_batch_generation(Batch(3))
    worker.forward_batch_generation(Batch(1, extend=True))
    worker.forward_batch_generation(Batch(4))
    timer.finish(9.0, 0.001, 0.002, 0.005, 0.001, 9.0, 0.001, 0.001, 0.006, 0.002)
    found = taken(stages)
    expected = [("draft", 3, 3.0), ("verify", 3, 5.0), ("extend", 3, 1.0), ("draft", 4, 2.0), ("verify", 4, 6.0)]
    assert [entry[:2] for entry in found] == [entry[:2] for entry in expected]  # the last is open until another comes
    assert [entry[2] for entry in found] == pytest.approx([entry[2] for entry in expected])
    assert stages.hook.on


def test_a_timer_that_reports_what_it_did_not_open_is_not_believed():
    from sglang_console_probe.stages import Stages

    timer = FakeTimer()
    worker = TimedWorker(timer)
    stages = Stages(worker, worker, timer, cuda=True)
    stages.install()
    timer.reporters[0](t=1.0, category="decode")
    assert "did not open" in stages.hook.state


def test_missing_methods_are_named():
    from sglang_console_probe.stages import Stages

    stages = Stages(object(), None, None, cuda=False)
    stages.install()
    assert stages.hook.state == "off: this SGLang's workers have no draft, verify, _draft_extend_for_decode"


# -------------------------------------------------------------------------------------------------- numbers


@given(st.lists(st.floats(0, 1e4), min_size=1, max_size=60))
def test_quantiles_lie_inside_and_rise(values):
    from sglang_console_probe.counters import quantile

    ordered = sorted(values)
    found = [quantile(ordered, share) for share in (0, 0.5, 0.95, 1)]
    assert found == sorted(found)
    assert (found[0], found[3]) == (ordered[0], ordered[-1])
    assert found[1] == pytest.approx(statistics.median(values))


@pytest.mark.parametrize(("batch", "under"), [(1, 1), (16, 16), (17, 24), (64, 64), (65, 96), (256, 256)])
def test_batch_sizes_are_grouped_upwards(batch, under):
    from sglang_console_probe.counters import bucket

    assert bucket(batch) == under


def test_a_stage_says_what_it_holds():
    from sglang_console_probe.counters import StageCounter

    counter = StageCounter()
    assert counter.message() == {"count": 0, "sum_ms": 0.0, "window": {"count": 0}, "by_batch": {}}
    for ms in (1.0, 2.0, 3.0):
        counter.add(1, ms)
    counter.add(20, 10.0)
    found = counter.message()
    assert (found["count"], found["sum_ms"]) == (4, 16.0)
    assert found["window"] == {"count": 4, "p50_ms": 2.5, "p95_ms": pytest.approx(8.95), "max_ms": 10.0}
    assert found["by_batch"] == {"1": [3, 6.0], "24": [1, 10.0]}
    counter.clear_window()
    assert counter.message()["window"] == {"count": 0}
    assert counter.message()["count"] == 4
