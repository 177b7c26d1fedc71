import json
import os
import subprocess
import sys

import pytest

from tests.engine import fixtures

KEYS = [
    "lines",
    "batches",
    "accept_len",
    "cycle_ms",
    "gen_throughput_tok_s",
    "depth",
    "cuda_graph_share",
    "startup",
    "failures",
    "warnings",
]
LOG = fixtures.ROOT / "h200-0.5.17/t8b_spec/stderr.log"
FAILED = fixtures.ROOT / "h200-0.5.17/fail_mem_0999/stderr.log"


def console(*words, stdin=None, **env):
    command = [sys.executable, "-m", "console", "explain", *map(str, words)]
    return subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=stdin is None or isinstance(stdin, str),
        timeout=60,
        check=False,
        env={**os.environ, **env},
    )


def test_json_has_exactly_the_keys_of_the_contract():
    done = console(LOG, "--json")
    answer = json.loads(done.stdout)
    assert done.returncode == 0
    assert list(answer) == KEYS
    assert answer["batches"] == 740
    assert answer["cycle_ms"] == pytest.approx(6.5, abs=0.5)
    assert answer["depth"] == 5
    assert done.stderr == ""


def test_a_failure_is_exit_4_with_its_cause():
    done = console(FAILED)
    assert done.returncode == 4
    assert "FAILED  oom-kv-pool [TP0]" in done.stdout
    assert "lower --mem-fraction-static (now 0.999)" in done.stdout
    (cause,) = json.loads(console(FAILED, "--json").stdout)["failures"]
    assert list(cause) == ["kind", "message", "ranks", "advice"]
    assert cause["ranks"] == ["TP0"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"hello\nworld\n",
        b"\x00\xff" * 500,
        b'{"a": 1}',
        b"[2026-12-01 01:00:00] INFO: my own application started\n",
    ],
    ids=["empty", "text", "binary", "json", "other-app"],
)
def test_no_sglang_lines_is_exit_1_and_one_line(tmp_path, body):
    path = tmp_path / "x.log"
    path.write_bytes(body)
    done = console(path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("console: found no SGLang lines in ")
    assert done.stderr.count("\n") == 1


def test_what_cannot_be_read_is_one_line(tmp_path):
    (tmp_path / "cut.gz").write_bytes(b"\x1f\x8b\x08\x00 this is no gzip")
    (tmp_path / "cut.zst").write_bytes(b"\x28\xb5\x2f\xfd this is no zstd")
    for path in (tmp_path, tmp_path / "missing", tmp_path / "cut.gz", tmp_path / "cut.zst"):
        done = console(path)
        assert done.returncode == 2, path
        assert done.stderr.count("\n") == 1
        assert "Traceback" not in done.stderr


def test_standard_input():
    done = console("-", "--json", stdin=LOG.read_text(errors="replace"))
    assert json.loads(done.stdout)["batches"] == 740


def test_scrapes_add_stage_times():
    folder = fixtures.ROOT / "h200-0.5.17/main"
    scrapes = ["--metrics", folder / "metrics_load/00.prom", "--metrics", folder / "metrics_load/09.prom"]
    answer = json.loads(console(folder / "stderr.log", *scrapes, "--json").stdout)
    assert list(answer) == [*KEYS, "metrics"]
    assert answer["metrics"]["verify_ms"] == pytest.approx(0.5717, abs=1e-4)
    assert answer["metrics"]["extend_ms"] is None
    assert "verify 0.57" in console(folder / "stderr.log", *scrapes).stdout
    refused = console(folder / "stderr.log", "--metrics", folder / "404.txt")
    assert refused.returncode == 2
    assert "no scrape" in refused.stderr


@pytest.mark.parametrize(("baseline", "word", "code"), [(100, "pays", 0), (400, "loses", 4)])
def test_a_baseline_gives_a_verdict_on_single_streams(baseline, word, code):
    done = console(LOG, "--baseline", str(baseline), "--json")
    answer = json.loads(done.stdout)["verdict"]
    assert done.returncode == code
    assert (answer["verdict"], answer["running"]) == (word, "1")
    assert answer["break_even_accept_len"] == pytest.approx(baseline * answer["cycle_ms"] / 1000)
    assert f"tok/s without speculation: {word}" in console(LOG, "--baseline", str(baseline)).stdout


@pytest.mark.parametrize("baseline", ["0", "-1", "nan", "inf", "x"])
def test_no_baseline(baseline):
    done = console(LOG, f"--baseline={baseline}")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_plain_terminals():
    done = console(LOG, LC_ALL="C", PYTHONIOENCODING="ascii", NO_COLOR="1", TERM="dumb")
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert "\x1b" not in done.stdout


def test_reading_a_log_imports_no_textual():
    code = (
        "import sys; sys.argv=['console','explain',sys.argv[1]]; from console.cli import cli\n"
        "cli.main(standalone_mode=False)\n"
        "print([name for name in sys.modules if name in ('textual', 'aiohttp', 'torch')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(LOG)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.rstrip().endswith("[]")
