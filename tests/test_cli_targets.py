"""``console targets``: the keys, numbers and exit codes operators' scripts rely on."""

from __future__ import annotations

import json
import subprocess
import sys
import types

import msgspec
import pytest

from console import rig
from console.cli import main
from console.errors import ConsoleError, ExitCode

STORY = ["--baseline", "82", "--cycle-ms", "30"]


@pytest.fixture
def run(capsys):
    """Run ``console targets`` and return exit code, stdout, stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        try:
            main(["targets", *arguments])
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def running(monkeypatch):
    """Put a snapshot, or an error, where the agent's client would be."""

    def put(answer: rig.Snapshot | ConsoleError) -> list[str | None]:
        asked: list[str | None] = []

        def connect(name: str | None) -> types.SimpleNamespace:
            asked.append(name)
            if isinstance(answer, ConsoleError):
                raise answer
            return types.SimpleNamespace(snapshot=lambda: answer)

        module = types.ModuleType("console.agent.client")
        module.connect = connect
        monkeypatch.setitem(sys.modules, "console.agent.client", module)
        return asked

    return put


def snapshot(**changes) -> rig.Snapshot:
    from console.economics import positions, targets

    found = targets(rig.Baseline(tok_s=82.0), 30.0, 2, 2.0, (150.0,))
    parts = {
        "rig": "demo",
        "simulated": True,
        "targets": found,
        "cycle": rig.Cycle(verify=rig.Stage(mean_ms=26.0)),
        "acceptance": rig.Acceptance(positions=positions([10_000, 6180], [6180, 3820])),
    }
    return rig.Snapshot(**(parts | changes))


@pytest.mark.parametrize(
    ("depth", "ceiling", "at_depth"),
    [(2, 100.0, [0.8077, None, None]), (5, 200.0, [0.6156, 0.8834, 1.0])],
)
def test_the_story_as_json(run, running, depth, ceiling, at_depth):
    asked = running(ConsoleError("must not be asked", code=ExitCode.UNREACHABLE))
    code, out, err = run(*STORY, "--depth", str(depth), "--goal", "150", "--goal", "200", "--json")
    assert (code, err, asked) == (0, "", [])
    found = json.loads(out)
    assert list(found) == ["baseline_tok_s", "cycle_ms", "depth", "break_even_accept_len", "ceiling_tok_s", "goals"]
    assert (found["baseline_tok_s"], found["cycle_ms"], found["depth"]) == (82, 30, depth)
    assert (found["break_even_accept_len"], found["ceiling_tok_s"]) == (2.46, ceiling)
    goals = found["goals"]
    assert [list(goal) for goal in goals] == 3 * [
        ["tok_s", "accept_len", "accuracy_unlimited", "accuracy_at_depth", "reachable", "min_depth"]
    ]
    assert [goal["tok_s"] for goal in goals] == [82, 150, 200]
    assert [goal["accept_len"] for goal in goals] == [2.46, 4.5, 6.0]
    assert [round(goal["accuracy_unlimited"], 4) for goal in goals] == [0.5935, 0.7778, 0.8333]
    assert [goal["accuracy_at_depth"] and round(goal["accuracy_at_depth"], 4) for goal in goals] == at_depth
    assert [goal["reachable"] for goal in goals] == [value is not None for value in at_depth]
    assert [goal["min_depth"] for goal in goals] == [2, 4, 5]


def test_the_story_as_text(run):
    code, out, err = run(*STORY, "--depth", "2", "--accept-len", "2", "--goal", "150")
    assert (code, err) == (4, "")
    assert out.startswith("speculation loses: accept_len 2.00 is 0.46 below break-even 2.46\n")
    assert "66.7 tok/s at accept_len 2.00, 0.81x the baseline" in out
    assert "82 tok/s needs accuracy 80.8 % at depth 2, or a cycle of 24.4 ms at this accept_len" in out
    assert "150 tok/s needs depth 4 or more (94.7 % at depth 4)" in out
    assert "assumes verify cost flat in width" in out
    assert max(len(line) for line in out.splitlines()) <= 120


@pytest.mark.parametrize(
    ("accept_len", "code", "verdict"), [("2.0", 4, "loses"), ("2.6", 0, "pays"), ("2.46", 0, "cannot tell yet")]
)
def test_exit_code_is_the_verdict(run, accept_len, code, verdict):
    found = run(*STORY, "--depth", "2", "--accept-len", accept_len, "--json")
    assert found[0] == code
    assert json.loads(found[1])["verdict"] == verdict


def test_goals_out_of_reach_are_no_failure_while_nothing_is_measured(run):
    code, out, _ = run(*STORY, "--depth", "1", "--json")
    assert code == 0
    assert json.loads(out)["goals"][0]["reachable"] is False


def test_without_depth_the_answer_is_for_unlimited_depth(run):
    code, out, _ = run(*STORY, "--goal", "150", "--json")
    found = json.loads(out)
    assert (code, found["depth"], found["ceiling_tok_s"]) == (0, None, None)
    assert [goal["accuracy_at_depth"] for goal in found["goals"]] == [None, None]
    assert [goal["min_depth"] for goal in found["goals"]] == [2, 4]
    text = run(*STORY, "--goal", "150")[1]
    assert text.startswith("cannot tell yet: depth is not known; no accept_len measured\n")
    assert "150 tok/s needs depth 4 or more" in text


def test_speculation_off(run):
    code, out, _ = run("--baseline", "82", "--cycle-ms", "12.2", "--depth", "0", "--accept-len", "1")
    assert code == 0
    assert "speculation is off (depth 0)" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--baseline", "0", "--cycle-ms", "30"], "--baseline must be above 0, not 0"),
        (["--baseline", "nan", "--cycle-ms", "30"], "--baseline must be a finite number"),
        (["--baseline", "inf", "--cycle-ms", "30"], "--baseline must be a finite number"),
        (["--baseline", "82", "--cycle-ms", "0"], "--cycle-ms must be above 0"),
        (["--baseline", "82", "--cycle-ms", "-30"], "--cycle-ms must be above 0"),
        (["--baseline", "82", "--cycle-ms", "0.03"], "if it is in seconds, say 30"),
        ([*STORY, "--depth", "-1"], "depth must not be negative"),
        ([*STORY, "--depth", "100000"], "depth must be at most"),
        ([*STORY, "--goal", "0"], "--goal must be above 0"),
        ([*STORY, "--goal", "nan"], "--goal must be a finite number"),
        ([*STORY, "--accept-len", "0.5"], "it is at least 1"),
        ([*STORY, "--depth", "2", "--accept-len", "4"], "impossible at depth 2"),
    ],
)
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_bad_numbers_are_one_line_and_exit_code_2(run, arguments, message, form):
    code, out, err = run(*arguments, *form)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_from_the_running_rig(run, running):
    asked = running(snapshot())
    code, out, _ = run("--json")
    found = json.loads(out)
    assert (code, asked) == (4, [None])
    assert found["simulated"] is True
    assert (found["baseline_tok_s"], found["cycle_ms"], found["depth"]) == (82, 30, 2)
    assert (found["accept_len"], found["verdict"], found["margin"]) == (2.0, "loses", -0.46)
    assert [goal["tok_s"] for goal in found["goals"]] == [82, 150]


def test_a_simulated_rig_says_so_in_text_and_verify_time_is_named(run, running):
    running(snapshot())
    code, out, _ = run()
    assert code == 4
    assert out.startswith("SIMULATED\n")
    assert "verify in 20.4 ms at today's accept_len" in out


def test_what_if_keeps_only_what_still_holds(run, running):
    running(snapshot())
    faster = json.loads(run("--cycle-ms", "20", "--json")[1])
    assert (faster["cycle_ms"], faster["accept_len"], faster["verdict"]) == (20, 2.0, "pays")
    deeper = json.loads(run("--depth", "5", "--json")[1])
    assert (deeper["depth"], deeper["ceiling_tok_s"]) == (5, 200)
    assert "accept_len" not in deeper


def test_few_rounds_are_no_verdict(run, running):
    from console.economics import positions

    few = rig.Acceptance(positions=positions([8, 5], [5, 3]))
    running(snapshot(acceptance=few))
    code, out, _ = run("--baseline", "81", "--json")
    assert (code, json.loads(out)["verdict"]) == (0, "cannot tell yet")


def test_the_verdict_of_the_rig_stands_while_every_number_is_its_own(run, running):
    unfair = msgspec.structs.replace(
        snapshot().targets, verdict=rig.Verdict.UNCLEAR, why="the baseline is for one stream, eight are running"
    )
    running(snapshot(targets=unfair))
    code, out, _ = run("--goal", "120", "--json")
    found = json.loads(out)
    assert (code, found["verdict"], found["why"]) == (0, "cannot tell yet", unfair.why)
    assert [goal["tok_s"] for goal in found["goals"]] == [82, 120]


def test_nothing_runs(run, running):
    running(ConsoleError("no rig is running", code=ExitCode.UNREACHABLE))
    code, out, err = run("--cycle-ms", "30", "--json")
    assert (code, out) == (3, "")
    assert err == "console: no rig is running - start a rig, or give --baseline\n"


def test_a_rig_without_a_figure_yet(run, running):
    from console.economics import targets

    running(snapshot(targets=targets(rig.Baseline(), 30.0, 2, 2.0)))
    code, _, err = run()
    assert code == 3
    assert err == "console: rig demo has no baseline yet - no baseline measured - give --baseline\n"


def test_a_stale_baseline_is_said(run, running):
    from console.economics import targets

    running(snapshot(targets=targets(rig.Baseline(tok_s=82.0, stale=True, note="driver changed"), 30.0, 2, 2.0)))
    assert "the baseline is stale: driver changed" in run()[1]
    running(snapshot(targets=targets(rig.Baseline(tok_s=82.0, stale=True, note="\x1b[31mred"), 30.0, 2, 2.0)))
    assert "the baseline is stale: \\x1b[31mred" in run()[1]


def test_from_numbers_alone_nothing_heavy_is_imported():
    script = (
        "import sys\nfrom console.cli import main\n"
        f"main(['targets', *{STORY!r}, '--json'])\n"
        "print([m for m in ('textual', 'aiohttp', 'console.agent', 'console.engine') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == "[]\n"
    assert json.loads(done.stdout)["ceiling_tok_s"] is None


def test_goals_of_a_rig_without_baseline_are_all_goals(run, running):
    from console.economics import targets

    running(snapshot(targets=targets(rig.Baseline(), 30.0, 2, 2.0, (150.0, 200.0))))
    found = json.loads(run("--baseline", "82", "--json")[1])
    assert [goal["tok_s"] for goal in found["goals"]] == [82, 150, 200]
