"""Alarms over time."""

import msgspec
import pytest

from console import rig
from console.agent.alarm import SILENT_WINDOWS, Alarms
from console.agent.figures import METRICS_OFF

NOW = 1_800_000_000.0


def snapshot(at_s=NOW, *, accept_len=2.0, verdict=rig.Verdict.PAYS, running=4.0, depth=3.0, measured_at=None, **parts):
    base = rig.Snapshot(
        at_s=at_s,
        engine=rig.Engine(state=rig.EngineState.READY, algorithm="EAGLE3"),
        acceptance=rig.Acceptance(
            accept_len=rig.Figure(accept_len, rig.Source.LOADS, measured_at or at_s), depth=rig.Figure(depth)
        ),
        load=rig.Load(running=rig.Figure(running, rig.Source.LOADS, at_s)),
        targets=rig.Targets(
            verdict=verdict,
            speedup=0.81,
            accept_len=accept_len,
            break_even_accept_len=2.46,
            baseline=rig.Baseline(82.0),
        ),
    )
    return msgspec.structs.replace(base, **parts)


def ids(alarms):
    return [alarm.id for alarm in alarms]


def run(alarms, seconds, make):
    held, happened = (), []
    for second in seconds:
        held, events = alarms.update(make(NOW + second))
        happened += events
    return held, happened


def test_speculation_that_loses_for_a_while():
    alarms = Alarms()
    lose = lambda at_s: snapshot(at_s, verdict=rig.Verdict.LOSES)  # noqa: E731
    held, events = run(alarms, range(15), lose)
    assert (held, events) == ((), [])
    held, events = run(alarms, range(15, 20), lose)
    assert ids(held) == ["loses"]
    assert held[0].since_s == NOW
    assert held[0].text == "speculation loses: 0.81x of no speculation (accept_len 2.00, break-even 2.46)"
    assert held[0].causes
    assert [(event.level, event.kind) for event in events] == [("warn", "alarm")]


def test_a_clock_that_was_set_back_delays_no_alarm():
    alarms = Alarms()
    lose = lambda at_s: snapshot(at_s, verdict=rig.Verdict.LOSES)  # noqa: E731
    assert run(alarms, range(86400, 86403), lose) == ((), [])
    assert ids(run(alarms, range(16), lose)[0]) == ["loses"]


def test_a_figure_that_wavers_does_not_blink():
    alarms = Alarms()
    verdicts = {0: rig.Verdict.LOSES, 1: rig.Verdict.PAYS}
    held, events = run(alarms, range(120), lambda at_s: snapshot(at_s, verdict=verdicts[int(at_s) % 2]))
    assert (held, events) == ((), [])
    run(alarms, range(120, 140), lambda at_s: snapshot(at_s, verdict=rig.Verdict.LOSES))
    held, events = run(alarms, range(140, 200), lambda at_s: snapshot(at_s, verdict=verdicts[int(at_s) % 2]))
    assert ids(held) == ["loses"]
    assert events == []
    held, events = run(alarms, range(200, 220), snapshot)
    assert held == ()
    assert [event.text[:24] for event in events] == ["over: speculation loses:"]


def test_what_cannot_be_told_changes_nothing():
    alarms = Alarms()
    run(alarms, range(20), lambda at_s: snapshot(at_s, verdict=rig.Verdict.LOSES))
    held, events = run(alarms, range(20, 100), lambda at_s: snapshot(at_s, verdict=rig.Verdict.UNCLEAR))
    assert (ids(held), events) == (["loses"], [])
    held, _ = run(alarms, range(100, 200), lambda at_s: snapshot(at_s, running=0.0))
    assert ids(held) == ["loses"]
    held, _ = run(alarms, range(200, 220), lambda at_s: snapshot(at_s, engine=rig.Engine()))
    assert held == ()


def test_a_silent_drafter_counts_windows_not_snapshots():
    alarms = Alarms()
    held, _ = run(alarms, range(20), lambda at_s: snapshot(at_s, accept_len=1.0, measured_at=NOW))
    assert held == ()
    held, events = run(alarms, range(20, 20 + SILENT_WINDOWS), lambda at_s: snapshot(at_s, accept_len=1.01))
    assert ids(held) == ["silent-drafter"]
    assert held[0].level == "error"
    assert "lm_head" in held[0].causes[0]
    assert len(events) == 1
    held, _ = run(alarms, [30], lambda at_s: snapshot(at_s, accept_len=1.6))
    assert held == ()


@pytest.mark.parametrize(
    "quiet",
    [
        {"running": 0.0},  # no load
        {"depth": 0.0},  # speculation is off on purpose
        {"engine": rig.Engine(state=rig.EngineState.READY)},  # no algorithm
        {"acceptance": rig.Acceptance(accept_len=rig.Figure(1.0, stale=True), depth=rig.Figure(3.0))},
        {"acceptance": rig.Acceptance()},
    ],
)
def test_no_drafter_alarm_without_a_reason(quiet):
    held, _ = run(Alarms(), range(20), lambda at_s: snapshot(at_s, accept_len=1.0, **quiet))
    assert held == ()


def test_eagle_3_served_as_eagle_is_the_first_cause():
    engine = rig.Engine(state=rig.EngineState.READY, algorithm="EAGLE")
    held, _ = run(Alarms(), range(5), lambda at_s: snapshot(at_s, accept_len=1.0, engine=engine))
    assert "EAGLE-3 drafter served as EAGLE" in held[0].causes[0]


def test_causes_of_losing_name_what_is_measured():
    cycle = rig.Cycle(total_ms=rig.Figure(30.0), graph_share=rig.Figure(0.02), gap=rig.Stage(mean_ms=9.0), batch=16.0)
    losing = lambda at_s: snapshot(at_s, verdict=rig.Verdict.LOSES, cycle=cycle, depth=5.0)  # noqa: E731
    held, _ = run(Alarms(), range(20), losing)
    assert held[0].causes[0] == "verify runs without CUDA graphs in 98 % of passes"
    text = " ".join(held[0].causes)
    assert "30 % of the cycle" in text
    assert "16 requests share a cycle" in text
    assert "few of the 5 drafted tokens" in text


def test_a_lost_gpu_an_xid_and_ecc_errors_at_once():
    gpus = (
        rig.Gpu(0, uuid="GPU-0", rank=1, state="lost", note="LOST 12:04"),
        rig.Gpu(1, uuid="GPU-1", xid=79),
        rig.Gpu(2, uuid="GPU-2", xid=13),  # a program's own fault
        rig.Gpu(3, uuid="GPU-3", ecc_uncorrected=2),
        rig.Gpu(4, uuid="MIG-4", state="error"),
    )
    alarms = Alarms()
    held, events = alarms.update(snapshot(gpus=gpus))
    assert ids(held) == ["gpu-lost-GPU-0", "xid-GPU-1", "ecc-GPU-3"]
    assert held[0].text == "GPU 0 (rank 1): LOST 12:04"
    assert len(events) == 3
    held, events = alarms.update(snapshot(NOW + 1))
    assert held == ()
    assert len(events) == 3


def test_journal_and_metrics():
    why = f"{METRICS_OFF}: the server was started without --enable-metrics"
    parts = {
        "agent": rig.AgentInfo(journal_note="history is not being recorded: disk full"),
        "cycle": rig.Cycle(verify=rig.Stage(why=why)),
    }
    alarms = Alarms()
    held, _ = run(alarms, range(30), lambda at_s: snapshot(at_s, **parts))
    assert ids(held) == ["journal", "metrics-off"]
    probe = rig.ProbeStatus(present=True)
    held, _ = run(alarms, range(30, 40), lambda at_s: snapshot(at_s, **parts, probe=probe))
    assert ids(held) == ["journal"]


def test_acknowledging():
    alarms = Alarms()
    alarms.update(snapshot(gpus=(rig.Gpu(0, uuid="GPU-0", state="lost"),)))
    assert alarms.acknowledge("gpu-lost-GPU-0", "ann")
    assert not alarms.acknowledge("loses", "ann")
    held, _ = alarms.update(snapshot(gpus=(rig.Gpu(0, uuid="GPU-0", state="lost"),)))
    assert held[0].acknowledged_by == "ann"


def test_memory_stays_flat():
    alarms = Alarms()
    for number in range(500):
        alarms.update(snapshot(NOW + number, gpus=(rig.Gpu(0, uuid=f"GPU-{number}", state="lost"),)))
    assert len(alarms._states) < 10
