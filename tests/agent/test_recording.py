"""A journal as a recording: any second of it as a snapshot; charts over it; older files and damaged ones."""

import math
import sqlite3

import msgspec
import pytest

from console import rig
from console.agent import journal_file, series
from console.agent.record import Journal, read_history, series_of
from console.agent.recording import Recording
from console.errors import ConsoleError

NOW = 1_800_000_000.0


def snapshot(number, **changes):
    found = rig.Snapshot(
        seq=number,
        at_s=NOW + number,
        rig="box",
        gpus=(rig.Gpu(0, power_w=300.0), rig.Gpu(1, power_w=200.0), rig.Gpu(2, state="lost")),
        load=rig.Load(tok_s=rig.Figure(float(number), rig.Source.PROBE, NOW + number)),
    )
    return msgspec.structs.replace(found, **changes)


@pytest.fixture
def path(tmp_path):
    """Ten seconds, a gap of a hundred, ten seconds; blocks of five."""
    journal = Journal(tmp_path / "history.sqlite", clock=lambda: NOW + 200)
    for number in [*range(10), *range(110, 120)]:
        journal.sample(snapshot(number))
        if number % 5 == 4:
            assert journal._flush()
    journal.event(rig.Event(NOW + 3, "info", "early"))
    journal.event(rig.Event(NOW + 112, "error", "late"))
    steps = (rig.Step("a", rig.StepState.DONE, seconds=1.0),)
    operation = rig.Operation(id="x", kind="depth", title="depth 3", started_at_s=NOW + 5, steps=steps)
    journal.operation(
        msgspec.structs.replace(operation, state=rig.OperationState.FAILED, ended_at_s=NOW + 7, message="it failed")
    )
    assert journal._flush()
    journal._close()
    return tmp_path / "history.sqlite"


def test_any_second_as_it_was(path):
    with Recording(path) as recording:
        assert (recording.first_s, recording.last_s) == (NOW, NOW + 119)
        assert recording.at(NOW - 1) is None
        for wanted, number in ((0, 0), (0.7, 0), (4, 4), (4.5, 4), (9, 9), (60, 9), (109.9, 9), (110, 110), (999, 119)):
            assert recording.at(NOW + wanted).seq == number, wanted
        assert recording.after(NOW + 4) == NOW + 5
        assert recording.after(NOW + 9) == NOW + 110, "over the gap"
        assert recording.after(NOW + 119) is None
        assert recording.before(NOW + 110) == NOW + 9
        assert recording.before(NOW + 5) == NOW + 4
        assert recording.before(NOW) is None


def test_it_knows_nothing_of_what_came_later(path):
    with Recording(path) as recording:
        early, running, ended, late = (recording.at(NOW + at) for at in (2, 6, 8, 119))
        assert (early.events, early.operation) == ((), None)
        assert (running.operation.state, running.operation.message) == (rig.OperationState.RUNNING, "")
        assert running.operation.steps == (rig.Step("a"),)
        assert ended.operation.message == "it failed"
        assert [event.text for event in late.events] == ["early", "late"]


def test_graphs_are_the_last_minutes_with_gaps(path):
    with Recording(path) as recording:
        graph = recording.at(NOW + 112).history.tok_s
        assert len(graph) == 300
        assert graph[-3:] == (110.0, 111.0, 112.0)
        assert set(graph[-103:-3]) == {None}
        assert graph[-113:-103] == tuple(float(number) for number in range(10))


def test_a_damaged_block_is_a_gap(path):
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE samples SET zstd = ? WHERE from_s = ?", (b"torn", NOW + 5))
    connection.close()
    with Recording(path) as recording:
        assert recording.at(NOW + 7).seq == 4
        assert recording.after(NOW + 4) == NOW + 110
        assert recording.damaged == 1


def test_what_is_no_journal_is_one_line(tmp_path):
    other = tmp_path / "other.sqlite"
    sqlite3.connect(other).close()
    text = tmp_path / "text"
    text.write_text("hello " * 1000)
    newer = tmp_path / "newer.sqlite"
    connection = journal_file.open_for_writing(newer)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    empty = tmp_path / "empty.sqlite"
    journal_file.open_for_writing(empty).close()
    for path, words in (
        (tmp_path / "none", "does not exist"),
        (tmp_path, "is a folder"),
        (other, "is no journal of a rig"),
        (text, "cannot be read as a journal - file is not a database"),
        (newer, "is of a newer console"),
        (empty, "holds no snapshots"),
    ):
        with pytest.raises(ConsoleError, match=words):
            Recording(path)


def test_a_journal_of_version_1_is_read_and_upgraded(path):
    connection = sqlite3.connect(path)
    connection.executescript("ALTER TABLE series DROP COLUMN power_w; PRAGMA user_version = 1;")
    connection.close()
    assert read_history(path, "series")[0]["power_w"] is None
    with Recording(path) as recording:
        assert recording.at(NOW + 3).history.tok_s[-1] == 3.0
    assert next(series.rows(path, 0, math.inf))[-1] is None
    journal = Journal(path, clock=lambda: NOW + 200)
    journal.sample(snapshot(150))
    assert journal._flush(), journal.note
    journal._close()
    assert journal.note == ""
    values = [row["power_w"] for row in read_history(path, "series")]
    assert values == [None] * 20 + [500.0]


def test_power_is_of_all_gpus_or_not_told():
    def power(*gpus):
        return dict(zip(journal_file.SERIES, series_of(rig.Snapshot(gpus=gpus)), strict=True))["power_w"]

    assert power(rig.Gpu(0, power_w=300.0), rig.Gpu(1, power_w=1.5)) == 301.5
    assert power(rig.Gpu(0, power_w=300.0), rig.Gpu(1)) is None
    assert power(rig.Gpu(0, power_w=300.0), rig.Gpu(1, state="lost")) == 300.0
    assert power() is None


def test_a_chart_is_means_over_steps(path):
    chart = series.chart(path, NOW, NOW + 120, 10.0)
    assert (chart.since_s, chart.step_s) == (NOW, 10.0)
    assert chart.columns["tok_s"] == (4.5, *[None] * 10, 114.5)
    assert chart.columns["power_w"][0] == 500.0
    assert set(chart.columns["cycle_ms"]) == {None}
    ragged = series.chart(path, NOW + 3, NOW + 4, 10.0)
    assert (ragged.since_s, ragged.columns["tok_s"]) == (NOW, (4.5,))
    for bad in (
        (NOW, NOW + 1e6, 1.0),
        (NOW, NOW - 1, 1.0),
        (NOW, NOW, 0.0),
        (math.nan, NOW, 1.0),
        (NOW, math.inf, 1.0),
    ):
        with pytest.raises(ConsoleError):
            series.chart(path, *bad)


def test_rows_for_an_export(path):
    rows = list(series.rows(path, NOW + 8, NOW + 111))
    assert [row[0] for row in rows] == [NOW + 8, NOW + 9, NOW + 110]
    assert len(rows[0]) == len(series.COLUMNS)
