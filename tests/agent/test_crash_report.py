"""Crash reports: written when an engine dies by itself, with all that was known, and kept within bounds."""

import os
import signal

import msgspec
import pytest

from console import rig
from console.agent import crash_report, past
from console.agent.configuration import Configuration
from console.agent.crash_report import CrashReport, Death
from console.agent.record import Journal
from console.agent.state import Ending, EngineRecord
from console.errors import ConsoleError
from console.paths import RigPaths
from console.rig import EngineState
from profiles.schema import Profile
from tests.agent.control import Live, controlled

NOW = 1_800_000_000.0
OOM = rig.Failure("oom-serving", "CUDA out of memory", ("TP3", "TP5"), "lower it")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLANG_CONSOLE_HOME", str(tmp_path))
    return tmp_path


def death(**changes):
    record = EngineRecord(
        launch_id="x",
        configuration=Configuration(Profile(name="story"), depth=3),
        url="http://127.0.0.1:30000",
        log_path="/rig/engine.log",
        started_at_s=NOW - 500,
        ready_at_s=NOW - 400,
        by="ann@pts/1",
        version="0.5.23",
    )
    ended = Ending(state=EngineState.DEAD, at_s=NOW, failure=OOM, exit_code=-9)
    other = rig.Failure("gpu-lost", "Xid", ("TP1",))
    found = Death(record, ended, (OOM, other), ("a line", "key is hunter2secret"), True, frozenset({"hunter2secret"}))
    return found._replace(**changes)


def before(**changes):
    found = rig.Snapshot(
        at_s=NOW - 0.4,
        driver="580.1",
        engine=rig.Engine(state=EngineState.READY, started_at_s=NOW - 500),
        gpus=tuple(rig.Gpu(index, uuid=f"GPU-{index}", rank=index, mem_used_bytes=140 << 30) for index in range(2)),
        load=rig.Load(running=rig.Figure(12.0), tok_s=rig.Figure(900.0)),
        acceptance=rig.Acceptance(accept_len=rig.Figure(2.4)),
    )
    return msgspec.structs.replace(found, **changes)


def operation(name, started_at_s, **more):
    return msgspec.to_builtins(
        rig.Operation(id=name, kind="depth", title="depth 3", by="bob", started_at_s=started_at_s, **more)
    )


def composed(found=None, seen=None, now=None, operations=()):
    return crash_report.compose(
        "default", found or death(), before=seen or before(), now=now or before(), operations=operations
    )


def test_all_that_was_known_is_in_it():
    lost = rig.Gpu(1, uuid="GPU-1", rank=1, state="lost", xid=79, note="fell off the bus")
    now = before(gpus=(rig.Gpu(0, uuid="GPU-0", mem_used_bytes=0), lost))
    rows = [
        operation("old", NOW - 4000, ended_at_s=NOW - 3900),
        operation("long", NOW - 4000, ended_at_s=NOW - 3500),
        operation("new", NOW - 60, before="depth 2", after="depth 3"),
        {"id": "torn"},
    ]
    report = composed(now=now, operations=rows)
    assert (report.exit_code, report.signal, report.profile) == (-9, "SIGKILL", "story")
    assert report.configuration == "story with depth 3"
    assert (report.cause.ranks, [cause.kind for cause in report.more_causes]) == (("TP3", "TP5"), ["gpu-lost"])
    assert [entry.id for entry in report.operations] == ["long", "new"]
    assert report.gpus[0].mem_used_bytes == 140 << 30, "the memory it held while it lived"
    assert (report.gpus[1].state, report.xids) == ("lost", ("GPU 1 (rank 1): Xid 79",))
    assert (report.last_seen.running, report.last_seen.accept_len, report.last_seen.depth) == (12.0, 2.4, None)
    assert report.versions["SGLang"] == "0.5.23"
    assert report.versions["driver"] == "580.1"


def test_secrets_are_masked_everywhere():
    found = death()
    failure = rig.Failure("x", "the key hunter2secret is wrong", advice="HF_TOKEN=hf_abcdefghijklmnopqrstuvwx")
    found = found._replace(ended=msgspec.structs.replace(found.ended, failure=failure))
    text = msgspec.json.encode(composed(found)).decode()
    assert "hunter2" not in text
    assert "hf_abcdef" not in text
    assert "key is ***" in text


def test_a_snapshot_of_another_engine_is_passed_over():
    other = before(engine=rig.Engine(state=EngineState.READY, started_at_s=NOW - 9000))
    report = composed(seen=other)
    assert report.last_seen is None
    assert len(report.gpus) == 2, "the GPUs as they are now"


def test_reports_are_bounded_and_nothing_else_is_touched(tmp_path):
    folder = tmp_path / "crashes"
    folder.mkdir()
    (folder / "mine.json").write_text("{}")
    names = [crash_report.write(folder, composed(), kept=3).id for _ in range(12)]
    assert len(set(names)) == 12
    reports, damaged = crash_report.read_all(folder)
    assert [entry.id for entry in reports] == names[-3:], "the newest, by number and not by letter"
    assert damaged == ()
    assert (folder / "mine.json").exists()
    assert (folder / f"{names[-1]}.json").stat().st_mode & 0o777 == 0o600


def test_a_damaged_report_hides_no_other(tmp_path):
    good = crash_report.write(tmp_path, composed())
    (tmp_path / "20200101-000000.json").write_text('{"id": "torn')
    (tmp_path / "20200102-000000.json").write_text("[]")
    reports, damaged = crash_report.read_all(tmp_path)
    assert [entry.id for entry in reports] == [good.id]
    assert len(damaged) == 2
    assert "20200101-000000.json is damaged" in damaged[0]
    assert crash_report.find(tmp_path, good.id[:6]).id == good.id
    with pytest.raises(ConsoleError, match=r"no crash report '2020' - .*is damaged"):
        crash_report.find(tmp_path, "2020")
    with pytest.raises(ConsoleError, match=r"no crash report '\.\./\.\./etc'"):
        crash_report.find(tmp_path, "../../etc")


async def test_an_engine_that_dies_leaves_a_report_and_one_that_is_stopped_none(tmp_path):
    async with controlled(tmp_path) as rig_:
        await rig_.up()
        rig_.daemon._snapshot()
        os.kill(rig_.pid, signal.SIGKILL)
        await rig_.until(lambda: any("crash report" in event.text for event in rig_.measure.events))
        (report,), damaged = crash_report.read_all(rig_.paths.crashes)
        assert damaged == ()
        assert (report.exit_code, report.signal, report.profile) == (-9, "SIGKILL", "fake")
        assert "killed by SIGKILL" in report.cause.message
        assert [entry.kind for entry in report.operations] == ["launch"]
        assert report.log_lines, "the log's last lines"
        assert rig_.measure.events[-1].text == f"crash report {report.id}: console history show {report.id}"
        await rig_.up()
        await rig_.do("stop")
        assert len(crash_report.read_all(rig_.paths.crashes)[0]) == 1


async def test_a_journal_that_cannot_be_read_costs_no_operation_and_no_report(tmp_path):
    async with controlled(tmp_path, live=Live()) as rig_:

        def unreadable(_kind, _since, _until):
            raise ConsoleError("the history cannot be read", why="disk I/O error")

        rig_.measure.history = unreadable
        rig_.daemon._aftermath._history = unreadable
        await rig_.up()
        assert (await rig_.do("depth", depth=3)).state is rig.OperationState.DONE
        os.kill(rig_.pid, signal.SIGKILL)
        await rig_.until(lambda: rig_.engine.state is EngineState.DEAD)
        await rig_.until(lambda: crash_report.read_all(rig_.paths.crashes)[0])
        assert crash_report.read_all(rig_.paths.crashes)[0][0].operations == ()


async def test_a_folder_that_cannot_be_written_is_one_event(tmp_path):
    async with controlled(tmp_path) as rig_:
        await rig_.up()
        rig_.paths.crashes.rmdir()
        rig_.paths.crashes.write_text("in the way")
        os.kill(rig_.pid, signal.SIGKILL)
        await rig_.until(lambda: any("no crash report" in event.text for event in rig_.measure.events))
        assert rig_.engine.state is EngineState.DEAD


def test_the_past_without_an_agent_tells_what_is_damaged():
    paths = RigPaths("default")
    paths.make()
    found = past.gather(paths, 0.0, NOW * 2)
    assert found.empty
    assert not found.damaged
    assert found.notes == [f"rig default has no journal: {paths.history} does not exist"]
    crash_report.write(paths.crashes, composed())
    paths.history.write_bytes(b"no journal " * 500)
    (paths.dir / "runs").mkdir()
    (paths.dir / "runs" / "20260101-000000-baseline.json").write_text("{")
    found = past.gather(paths, 0.0, NOW * 2)
    assert found.damaged
    assert len(found.rows["crashes"]) == 1
    assert len(found.notes) == 2, found.notes
    assert "cannot be read - file is not a database" in found.notes[0]
    assert "20260101-000000-baseline.json" in found.notes[1]
    assert past.newest_at_s(paths) == NOW


def test_a_report_of_a_newer_version_with_more_fields_still_reads():
    raw = msgspec.json.decode(msgspec.json.encode(composed()))
    assert msgspec.convert({**raw, "weather": "rain"}, CrashReport).id == raw["id"]


def test_an_operation_without_an_end_that_is_not_the_newest_was_cut_off():
    paths = RigPaths("default")
    paths.make()
    journal = Journal(paths.history, clock=lambda: NOW)
    for name, ended_at_s in (("a", NOW - 90), ("b", None), ("c", None)):
        entry = rig.Operation(id=name, kind="depth", started_at_s=NOW - 100 + ord(name), ended_at_s=ended_at_s)
        journal.operation(entry)
    assert journal._flush()
    journal._close()
    rows = past.gather(paths, 0.0, NOW * 2, ("operations",)).rows["operations"]
    assert [row.get("state", "running") for row in rows] == ["running", "cut off", "running"]
    assert past.gather(paths, 0.0, NOW * 2, ("crashes",)).rows == {"crashes": []}
