"""The journal: what is kept, and what happens when the disk or the file is no good."""

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time

import pytest

from console import rig
from console.agent import journal_file
from console.agent.record import Journal, Start, read_history, read_samples, read_starts, series_of
from console.errors import ConsoleError

NOW = 1_800_000_000.0


def snapshot(number, *, tok_s=66.7):
    return rig.Snapshot(
        seq=number,
        at_s=NOW + number,
        rig="default",
        gpus=tuple(rig.Gpu(index, name="NVIDIA H200", util_pct=90.0 + index) for index in range(8)),
        cycle=rig.Cycle(total_ms=rig.Figure(30.0, rig.Source.PROBE, NOW + number), verify=rig.Stage(mean_ms=26.0)),
        load=rig.Load(tok_s=rig.Figure(tok_s, rig.Source.LOADS, NOW + number)),
        history=rig.History(tok_s=(1.0,) * 300),
        log_tail=("line",) * 20,
        events=(rig.Event(NOW, "info", "something"),),
    )


def wait_for(condition, timeout_s=5.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.01)


@pytest.fixture
def journal(tmp_path):
    made = Journal(tmp_path / "history.sqlite", retry_period_s=0.05, clock=lambda: NOW)
    made.start()
    yield made
    made.stop()


def test_what_is_kept_comes_back(journal):
    for number in range(5):
        journal.sample(snapshot(number))
    running = rig.Operation("op1", "depth", title="depth 3", by="ann", started_at_s=NOW + 1)
    journal.operation(running)
    journal.operation(
        rig.Operation("op1", "depth", by="ann", state=rig.OperationState.DONE, started_at_s=NOW + 1, after="depth 5")
    )
    journal.event(rig.Event(NOW + 2, "warn", "accept_len fell"))
    journal.engine_start(Start(NOW, "tiny", ready=True, seconds=60.0, phases={"weights": 20.0}))
    journal.stop()
    assert journal.note == ""
    path = journal.path
    assert [entry.seq for entry in read_samples(path)] == [0, 1, 2, 3, 4]
    first = read_samples(path, since_s=NOW + 3)[0]
    assert (first.seq, first.gpus[7].util_pct, first.log_tail, first.history) == (3, 97.0, (), rig.History())
    (operation,) = read_history(path, "operations")
    assert (operation["state"], operation["after"]) == ("done", "depth 5")
    assert read_history(path, "events") == [{"at_s": NOW + 2, "level": "warn", "text": "accept_len fell"}]
    series = read_history(path, "series", NOW + 1, NOW + 2)
    assert [(row["at_s"], row["cycle_ms"], row["verify_ms"], row["draft_ms"]) for row in series] == [
        (NOW + 1, 30.0, 26.0, None),
        (NOW + 2, 30.0, 26.0, None),
    ]
    assert read_history(path, "starts")[0]["phases"] == {"weights": 20.0}
    assert read_history(path, "events", NOW + 3) == []


def test_the_newest_rows_within_the_limit_oldest_first(journal):
    for number in range(10):
        journal.event(rig.Event(NOW + number, "info", str(number)))
    journal.stop()
    assert [row["text"] for row in read_history(journal.path, "events", limit=3)] == ["7", "8", "9"]


def test_an_unknown_kind_is_refused(journal):
    with pytest.raises(ConsoleError, match="no history of 'secrets'"):
        read_history(journal.path, "secrets")


def test_a_file_that_cannot_be_read_is_one_line(tmp_path):
    path = tmp_path / "history.sqlite"
    path.write_bytes(b"not a database, " * 100)
    with pytest.raises(ConsoleError, match="cannot be read - file is not a database"):
        read_history(path, "events")


def test_a_journal_begun_this_moment_is_empty(tmp_path):
    path = tmp_path / "history.sqlite"
    sqlite3.connect(path).close()
    assert read_history(path, "events") == []


def test_no_journal_is_an_empty_history(tmp_path):
    assert read_history(tmp_path / "none.sqlite", "events") == []
    assert read_starts(tmp_path / "none.sqlite", "tiny") == []


def test_starts_are_those_of_the_profile_that_got_ready(journal):
    for number, (profile, ready) in enumerate([("a", True), ("b", True), ("a", False), ("a", True)]):
        journal.engine_start(Start(NOW + number, profile, ready, seconds=float(number)))
    journal.stop()
    assert [start.seconds for start in read_starts(journal.path, "a")] == [3.0, 0.0]


def test_stale_figures_are_gaps_in_the_series():
    figures = series_of(
        rig.Snapshot(
            cycle=rig.Cycle(total_ms=rig.Figure(30.0, stale=True), draft=rig.Stage(mean_ms=1.0, stale=True)),
            load=rig.Load(running=rig.Figure(2.0)),
        )
    )
    assert dict(zip(journal_file.SERIES, figures, strict=True)) == dict.fromkeys(journal_file.SERIES) | {"running": 2.0}


def test_an_empty_rig_writes_no_series(journal):
    journal.sample(rig.Snapshot(at_s=NOW))
    journal.stop()
    assert read_history(journal.path, "series") == []
    assert len(read_samples(journal.path)) == 1


def test_samples_of_an_hour_stay_small(tmp_path):
    """Eight GPUs, a snapshot a second: at most 4 MiB an hour, so that the journal holds days."""
    journal = Journal(tmp_path / "history.sqlite", clock=lambda: NOW)
    for number in range(120):
        journal.sample(snapshot(number, tok_s=60.0 + number % 7))
        if number % 5 == 4:
            assert journal._flush()
    size = journal_file.used_bytes(journal._connection)
    assert size * 30 < 4 << 20
    journal._close()


# --------------------------------------------------------------------------------------- trouble


def test_kill_9_leaves_a_journal_that_opens(tmp_path):
    """Whatever was written stays; the next agent goes on in the same file."""
    path = tmp_path / "history.sqlite"
    script = textwrap.dedent(
        f"""
        import itertools, time
        from pathlib import Path
        from console import rig
        from console.agent.record import Journal
        journal = Journal(Path({str(path)!r}))
        journal.start()
        for number in itertools.count():
            journal.sample(rig.Snapshot(seq=number, at_s={NOW} + number))
            journal.event(rig.Event({NOW} + number, "info", str(number)))
            if number == 200:
                print("go", flush=True)
            time.sleep(0.001)
        """
    )
    writer = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    try:
        assert writer.stdout.readline() == b"go\n"
        writer.send_signal(signal.SIGKILL)
    finally:
        writer.wait(10)
        writer.stdout.close()
    events = read_history(path, "events")
    assert [row["text"] for row in events] == [str(number) for number in range(len(events))]
    assert len(events) >= 100
    journal = Journal(path)
    journal.start()
    journal.event(rig.Event(NOW + 9000, "info", "after"))
    journal.stop()
    assert journal.note == ""
    assert read_history(path, "events")[-1]["text"] == "after"
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def recorded(journal):
    """Numbers of the samples that a reader beside the writer finds."""
    try:
        return [entry.seq for entry in read_samples(journal.path)]
    except sqlite3.OperationalError:
        return []  # begun this moment


def test_each_sample_is_in_the_file_at_once_and_five_share_a_row(journal):
    """What a killed agent had sampled is there; a reader beside it sees the row grow."""
    seen = []
    for number in range(12):
        journal.sample(snapshot(number))
        seen.append(number)
        wait_for(lambda: recorded(journal) == seen)
    with sqlite3.connect(journal.path) as connection:
        assert connection.execute("SELECT count FROM samples ORDER BY from_s").fetchall() == [(5,), (5,), (2,)]
    connection.close()


def test_a_row_that_retention_took_is_begun_anew(journal):
    journal.sample(snapshot(0))
    wait_for(lambda: recorded(journal) == [0])
    with sqlite3.connect(journal.path) as connection:
        connection.execute("DELETE FROM samples")
    connection.close()
    journal.sample(snapshot(1))
    wait_for(lambda: recorded(journal) == [0, 1])


def test_a_full_disk_stops_the_writing_and_it_comes_back(journal):
    journal.event(rig.Event(NOW, "info", "before"))
    wait_for(lambda: len(read_history(journal.path, "events")) == 1)
    pages = journal._connection.execute("PRAGMA page_count").fetchone()[0]
    journal._connection.execute(f"PRAGMA max_page_count = {pages}")
    kept_open = journal_file.open_for_writing
    full = lambda path: limited(kept_open(path), pages)  # noqa: E731
    journal_file.open_for_writing, restore = full, kept_open
    try:
        journal.event(rig.Event(NOW + 1, "info", "x" * 100_000))
        wait_for(lambda: journal.note != "")
        assert "full" in journal.note
        assert str(journal.path.parent) in journal.note
        assert not journal.works
        journal.event(rig.Event(NOW + 2, "info", "while full"))
    finally:
        journal_file.open_for_writing = restore
    wait_for(lambda: journal.note == "")
    texts = [row["text"] for row in read_history(journal.path, "events")]
    assert [text[:10] for text in texts] == ["before", "x" * 10, "while full"]


def limited(connection, pages):
    connection.execute(f"PRAGMA max_page_count = {pages}")
    return connection


def test_a_folder_that_cannot_be_written(tmp_path):
    missing = tmp_path / "gone"
    journal = Journal(missing / "history.sqlite", retry_period_s=0.02)
    journal.start()
    journal.event(rig.Event(NOW, "info", "kept"))
    wait_for(lambda: journal.note != "")
    assert journal.note.startswith("history is not being recorded: ")
    missing.mkdir()
    wait_for(lambda: journal.note == "")
    journal.stop()
    assert [row["text"] for row in read_history(journal.path, "events")] == ["kept"]


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_read_only_file(tmp_path):
    path = tmp_path / "history.sqlite"
    journal_file.open_for_writing(path).close()
    path.chmod(0o400)
    journal = Journal(path, retry_period_s=0.02)
    journal.start()
    journal.event(rig.Event(NOW, "info", "x"))
    wait_for(lambda: "readonly" in journal.note)
    journal.stop()


def test_a_read_only_database_is_noted(journal, monkeypatch):
    """The same as root would see it: the file system is mounted read-only."""
    real = journal_file.open_for_writing

    def read_only(path):
        connection = real(path)
        connection.execute("PRAGMA query_only = 1")
        return connection

    monkeypatch.setattr(journal_file, "open_for_writing", read_only)
    journal.event(rig.Event(NOW, "info", "x"))
    wait_for(lambda: "readonly" in journal.note)
    monkeypatch.undo()
    wait_for(lambda: journal.note == "")
    assert len(read_history(journal.path, "events")) == 1


@pytest.mark.parametrize("content", [b"", b"not a database, " * 100, b"SQLite format 3\0" + b"\xff" * 4080])
def test_a_damaged_file_is_moved_aside_not_deleted(tmp_path, content):
    path = tmp_path / "history.sqlite"
    path.write_bytes(content)
    journal = Journal(path)
    journal.start()
    journal.event(rig.Event(NOW, "info", "new"))
    journal.stop()
    assert [row["text"] for row in read_history(path, "events")] == ["new"]
    aside = list(tmp_path.glob("history.sqlite.unusable-*"))
    if not content:  # an empty file is a fresh one
        assert (aside, journal.note) == ([], "")
        return
    assert [file.read_bytes() for file in aside] == [content]
    assert aside[0].name in journal.note
    assert journal.works


def test_damage_found_while_writing(journal):
    journal.event(rig.Event(NOW, "info", "one"))
    wait_for(lambda: journal.path.exists() and len(read_history(journal.path, "events")) == 1)
    journal._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with journal.path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * (journal.path.stat().st_size - 100))
    journal._close()
    journal.event(rig.Event(NOW + 1, "info", "two"))
    wait_for(lambda: "moved" in journal.note)
    wait_for(lambda: [row["text"] for row in read_history(journal.path, "events")] == ["two"])


def test_another_schema_is_moved_aside(tmp_path):
    path = tmp_path / "history.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    journal = Journal(path)
    journal.start()
    journal.stop()
    assert "schema 99" in journal.note
    assert len(list(tmp_path.glob("history.sqlite.unusable-*"))) == 1


def test_a_removed_file_is_begun_again(journal):
    journal.event(rig.Event(NOW, "info", "one"))
    wait_for(lambda: len(read_history(journal.path, "events")) == 1)
    journal.path.unlink()
    journal.event(rig.Event(NOW + 1, "info", "two"))
    wait_for(lambda: [row["text"] for row in read_history(journal.path, "events")] == ["two"])


def test_recording_never_grows_without_bound(tmp_path):
    journal = Journal(tmp_path / "no" / "history.sqlite", clock=lambda: NOW)
    for number in range(5000):
        journal.sample(rig.Snapshot(at_s=NOW + number))
        journal.event(rig.Event(NOW + number, "info", ""))
    assert len(journal._samples) <= 60
    assert len(journal._rows) == 1000
    assert not journal._flush()


def test_old_and_large_go(tmp_path):
    path = tmp_path / "history.sqlite"
    journal = Journal(path, max_bytes=400_000, max_age_s=1000.0, clock=lambda: NOW + 2000)
    journal.event(rig.Event(NOW, "info", "too old"))
    journal.event(rig.Event(NOW + 1500, "info", "young"))
    assert journal._flush()
    noise = [os.urandom(3000).hex() for _ in range(300)]
    for number, text in enumerate(noise):
        journal._shrink_due_s = 0.0
        journal.sample(rig.Snapshot(seq=number, at_s=NOW + 1200 + number, rig=text))
        assert journal._flush()
    assert journal_file.used_bytes(journal._connection) <= 400_000
    journal._close()
    assert path.stat().st_size < 1_000_000
    kept = [entry.seq for entry in read_samples(path)]
    assert kept == list(range(kept[0], 300))
    assert kept[0] > 100
    assert [row["text"] for row in read_history(path, "events")] == ["young"]
