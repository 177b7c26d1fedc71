"""``console history``: the past of a rig from its files, no agent anywhere."""

import json
import time

import pytest

from console import rig
from console.agent import crash_report
from console.agent.configuration import Configuration
from console.agent.record import Journal, Start
from console.agent.state import Ending, EngineRecord
from console.cli import main
from console.paths import RigPaths
from console.rig import EngineState
from profiles.schema import Profile

NOW = time.time()


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLANG_CONSOLE_HOME", str(tmp_path))
    return tmp_path


def crash(paths, at_s=NOW - 100):
    record = EngineRecord(
        launch_id="x",
        configuration=Configuration(Profile(name="story")),
        url="http://127.0.0.1:30000",
        log_path="/rig/engine.log",
        started_at_s=at_s - 500,
    )
    cause = rig.Failure("gpu-lost", "CUDA error: \x1b[31mfell off\x1b[0m", ("TP3",), "see dmesg")
    ended = Ending(state=EngineState.DEAD, at_s=at_s, failure=cause, exit_code=-6)
    found = crash_report.Death(record, ended, (), ("the last line",), watched=True)
    report = crash_report.compose("box", found, before=rig.Snapshot(), now=rig.Snapshot(), operations=())
    return crash_report.write(paths.crashes, report)


@pytest.fixture
def paths():
    paths = RigPaths("box")
    paths.make()
    journal = Journal(paths.history, clock=lambda: NOW)
    journal.start()
    for number, age_s in enumerate((90_000, 60)):
        journal.operation(
            rig.Operation(
                id=f"op{number}abc",
                kind="depth",
                title="depth 3",
                by="ann@pts/1",
                state=rig.OperationState.ROLLED_BACK,
                started_at_s=NOW - age_s,
                ended_at_s=NOW - age_s + 2.5,
                before="depth 2",
                after="depth 3",
                message="accept_len fell",
                steps=(rig.Step("set the depth", rig.StepState.FAILED, "too low", 2.0),),
            )
        )
    for number in range(60):
        journal.event(rig.Event(NOW - 60 + number, "warn", f"event {number}"))
    journal.engine_start(Start(NOW - 50, "story", ready=True, seconds=61.0, phases={"weights": 40.0}))
    journal.stop()
    return paths


def run(capsys, *argv):
    try:
        main(list(argv))
        code = 0
    except SystemExit as done:
        code = int(done.code or 0)
    out = capsys.readouterr()
    return code, out.out, out.err


def test_who_what_before_after_how_it_ended_and_seconds(paths, capsys):
    code, out, err = run(capsys, "history")  # the only rig that has files
    assert (code, err) == (0, "")
    line = next(line for line in out.splitlines() if "op1abc" in line)
    assert "rolled back      2.5 s  depth 3  by ann@pts/1" in line
    assert "depth 2 -> depth 3" in out
    assert "accept_len fell" in out
    assert "op0abc" not in out, "older than a day"
    assert "20 earlier ones are left out: --kind events shows all" in out
    assert "event 19" not in out
    assert "ready   1 min 1 s  story  (weights 40 s)" in out


def test_kinds_and_since(paths, capsys):
    report = crash(paths)
    code, out, _ = run(capsys, "--rig", "box", "history", "--since", "2d", "--kind", "operations", "--kind", "crashes")
    assert code == 0
    assert "op0abc" in out
    assert report.id in out
    assert "event" not in out
    assert "killed by SIGABRT" in out
    assert "\x1b" not in out
    assert "CUDA error: fell off on TP3" in out
    code, out, _ = run(capsys, "--rig", "box", "history", "--since", "1s", "--kind", "starts")
    assert code == 0
    assert "the newest entry is of" in out


def test_json_and_nothing_else(paths, capsys):
    crash(paths)
    code, out, err = run(capsys, "--rig", "box", "history", "--json")
    found = json.loads(out)
    assert (code, err, found["rig"], found["notes"]) == (0, "", "box", [])
    assert {kind: len(found[kind]) for kind in ("operations", "events", "starts", "crashes", "runs")} == {
        "operations": 1,
        "events": 60,
        "starts": 1,
        "crashes": 1,
        "runs": 0,
    }
    assert found["crashes"][0]["signal"] == "SIGABRT"


def test_show_one(paths, capsys):
    report = crash(paths)
    code, out, _ = run(capsys, "--rig", "box", "history", "show", report.id)
    assert code == 0
    assert "to do      see dmesg" in out
    assert "  | the last line" in out
    assert "nothing within the hour before" in out
    code, out, _ = run(capsys, "--rig", "box", "history", "show", "op0")
    assert "failed      2.0 s  set the depth  too low" in out
    code, out, _ = run(capsys, "--rig", "box", "history", "show", "op1", "--json")
    assert json.loads(out)["kind"] == "operations"
    code, _, err = run(capsys, "--rig", "box", "history", "show", "op")
    assert (code, "op0abc, op1abc begin so" in err) == (2, True)
    code, _, err = run(capsys, "--rig", "box", "history", "show", "nothing")
    assert (code, "no entry 'nothing'" in err) == (2, True)


def test_a_damaged_journal_hides_no_crash(paths, capsys):
    crash(paths)
    for suffix in ("-wal", "-shm"):
        (paths.dir / f"{paths.history.name}{suffix}").unlink(missing_ok=True)
    paths.history.write_bytes(b"x" * 5000)
    code, out, err = run(capsys, "--rig", "box", "history")
    assert code == 1
    assert len(err.splitlines()) == 1
    assert "cannot be read - file is not a database" in err
    assert "SIGABRT" in out


def test_a_damaged_row_hides_no_other(paths, capsys):
    import sqlite3

    connection = sqlite3.connect(paths.history)
    with connection:
        connection.execute("UPDATE operations SET json = '{torn' WHERE id = 'op0abc'")
        connection.execute("INSERT INTO events VALUES (?, ?)", (NOW, "[1]"))
    connection.close()
    code, out, _ = run(capsys, "--rig", "box", "history", "--since", "2d", "--kind", "operations")
    assert code == 0
    assert "op1abc" in out


def test_no_rig_and_no_span(capsys):
    code, _, err = run(capsys, "--rig", "nowhere", "history")
    assert (code, err.strip().splitlines()[0][:23]) == (3, "console: no rig nowhere")
    code, _, err = run(capsys, "history", "--since", "soon")
    assert code == 2
    assert "'soon' is no span of time: 90s, 30m, 2h, 7d" in err
    for text in ("0s", "-1h", "nan", "1e9h", "5", ""):
        assert run(capsys, "history", "--since", text)[0] == 2
