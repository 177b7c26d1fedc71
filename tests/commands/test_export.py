"""``console export``: the figures of the journal, whole or not at all."""

import csv
import io
import json
import sys
import time
from datetime import datetime

import pytest

from console import rig
from console.agent import journal_file
from console.agent.record import Journal
from console.cli import main
from console.paths import RigPaths

NOW = float(int(time.time()))


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLANG_CONSOLE_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def paths():
    paths = RigPaths("box")
    paths.make()
    journal = Journal(paths.history, clock=lambda: NOW)
    for age_s in (90_000.5, 3.25, 2.0):
        tok_s = rig.Figure(66.7 + age_s, rig.Source.PROBE)
        journal.sample(rig.Snapshot(at_s=NOW - age_s, load=rig.Load(tok_s=tok_s)))
    assert journal._flush()
    journal._close()
    return paths


def run(capsys, *argv):
    try:
        main(["--rig", "box", "export", *argv])
        code = 0
    except SystemExit as done:
        code = int(done.code or 0)
    out = capsys.readouterr()
    return code, out.out, out.err


def test_csv_on_stdout(paths, capsys):
    code, out, err = run(capsys)
    rows = list(csv.DictReader(io.StringIO(out)))
    assert (code, err) == (0, "")
    assert list(rows[0]) == ["time", "at_s", *journal_file.SERIES]
    assert [float(row["at_s"]) for row in rows] == [NOW - 90_000.5, NOW - 3.25, NOW - 2.0]
    assert [float(row["tok_s"]) for row in rows] == pytest.approx([66.7 + age for age in (90_000.5, 3.25, 2.0)])
    assert datetime.fromisoformat(rows[1]["time"]).timestamp() == NOW - 3.25
    assert rows[0]["accept_len"] == "", "not measured is not zero"


def test_since_and_json_by_the_files_ending(paths, capsys, home):
    file = home / "out.jsonl"
    code, out, err = run(capsys, "--since", "1h", str(file))
    assert (code, out) == (0, "")
    assert err == f"2 rows of rig box written to {file}\n"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["at_s"] for row in rows] == [NOW - 3.25, NOW - 2.0]
    assert rows[0]["accept_len"] is None


def test_nothing_is_exit_code_3_and_the_file_stays(paths, capsys, home):
    file = home / "out.csv"
    file.write_text("mine")
    code, out, err = run(capsys, "--since", "1s", str(file))
    assert (code, out) == (3, "")
    assert "no figures in that time - nothing was recorded - a longer --since" in err
    paths.history.unlink()
    code, _, err = run(capsys, str(file))
    assert (code, "does not exist" in err) == (3, True)
    assert file.read_text() == "mine"


def test_a_place_that_cannot_be_written_is_one_line(paths, capsys, home):
    code, _, err = run(capsys, str(home / "no" / "folder.csv"))
    assert (code, len(err.splitlines())) == (1, 1)
    assert "folder.csv cannot be written - No such file or directory" in err
    paths.history.write_bytes(b"x" * 5000)
    code, _, err = run(capsys, str(home / "out.csv"))
    assert (code, "cannot be read" in err) == (1, True)
    assert not list(home.glob("*out.csv*"))


def test_parquet_without_pyarrow_says_what_to_do(paths, capsys, home, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, _, err = run(capsys, str(home / "out.parquet"))
    assert (code, "pip install 'sglang-console[parquet]'" in err) == (2, True)
    code, _, err = run(capsys, "--format", "parquet")
    assert (code, "Parquet needs a FILE" in err) == (2, True)


def test_parquet(paths, capsys, home):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed (extra parquet)")
    file = home / "out.parquet"
    assert run(capsys, str(file))[0] == 0
    table = parquet.read_table(file).to_pydict()
    assert table["at_s"] == [NOW - 90_000.5, NOW - 3.25, NOW - 2.0]
    assert table["accept_len"] == [None] * 3
    assert list(table) == ["at_s", *journal_file.SERIES]
