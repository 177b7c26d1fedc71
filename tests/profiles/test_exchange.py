"""Profiles to and from plain SGLang, jsonl and the editor; every way back is the same profile."""

from __future__ import annotations

import io
import json
import stat

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from console import bench_jsonl
from console.agent.configuration import Configuration
from console.cli import main
from console.engine import commandline
from console.errors import ConsoleError
from profiles import draft, store
from profiles.schema import (
    EngineSection,
    Environment,
    Guard,
    Profile,
    Speculation,
    TargetsSection,
)

BUILTIN = [path.stem for path in store.builtin_folder().glob("*.toml")]


@pytest.fixture
def run(capsys, monkeypatch):
    def call(*arguments, stdin=""):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        try:
            main([*arguments])
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.mark.parametrize("name", BUILTIN)
def test_save_diff_export_import_diff(run, tmp_path, name):
    assert run("profiles", "save", "mine", "--from", name, "engine.stop_timeout_s=17")[0] == 0
    code, out, err = run("profiles", "diff", "mine", "mine")
    assert (code, out) == (0, "")
    assert "are the same" in err
    file = tmp_path / "launch.sh"
    assert run("profiles", "export", "mine", "-o", str(file))[0] == 0
    assert run("profiles", "import", str(file), "--name", "back")[0] == 0
    code, out, err = run("profiles", "diff", "mine", "back")
    assert (code, out) == (0, ""), out
    code, out, _ = run("profiles", "import", "-", "--name", "piped", "--json", stdin=file.read_text())
    assert json.loads(out)["notes"] == []
    assert run("profiles", "diff", "mine", "piped")[1] == ""


text = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=20)
word = st.text(st.sampled_from("abcXYZ019/._-= '\"$`\\#>|&;é"), min_size=1, max_size=12)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    description=text,
    model=word.filter(lambda value: not value.startswith("-") and value.strip()),
    values=st.lists(word.filter(lambda value: not value.startswith("-")), max_size=3),
    env=st.dictionaries(st.sampled_from(["NCCL_ALGO", "OMP_NUM_THREADS", "SGLANG_X", "PYTHONPATH"]), word, max_size=3),
    steps=st.one_of(st.none(), st.integers(1, 6)),
    candidates=st.sets(st.integers(0, 6), max_size=4),
    goals=st.lists(st.floats(1, 1e4), max_size=2),
    timer=st.booleans(),
)
def test_any_profile_comes_back(description, model, values, env, steps, candidates, goals, timer):
    spec = Speculation()
    if steps is not None:
        spec = Speculation(algorithm="EAGLE3", drafter="org/d", steps=steps, topk=1)
        if any(candidates):
            spec = msgspec.structs.replace(spec, candidate_steps=tuple(sorted(candidates | {steps})))
    profile = Profile(
        name="p",
        description=description,
        engine=EngineSection(
            model=model,
            tp=4,
            args=tuple(part for value in values for part in ("--x", value)),
            env=Environment(set=env, unset=("NCCL_DEBUG",), inherit=("NCCL_IB_HCA",)),
            pythonpath=("/a b",),
            device_timer=timer,
        ),
        speculation=spec,
        targets=TargetsSection(goals_tok_s=tuple(goals)),
        guard=Guard(window_s=5.0),
    )
    try:
        exported = commandline.export(profile)
    except ConsoleError:
        return  # the launch itself is refused, with its reason
    assert commandline.imported(exported).profile == profile


ANYBODYS = """
#!/bin/bash
# my launch script
export NCCL_P2P_LEVEL=SYS
export HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz
cd /srv
CUDA_VISIBLE_DEVICES=0,1,2,3 nohup /opt/sglang/bin/python -m sglang.launch_server \\
    --model /models/Kimi-K2.5 --tp 4 --port=31000 --host 0.0.0.0 \\
    --speculative-algorithm EAGLE3 --speculative-draft-model /models/eagle3 \\
    --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4 \\
    --api-key sk-abcdefghijklmnopqrstuvwx --mem-fraction-static 0.9 --enable-metrics > log 2>&1 &
tail -f log
"""


def test_anybodys_script_becomes_a_profile():
    found = commandline.imported(ANYBODYS)
    profile = found.profile
    assert profile.name == "Kimi-K2.5"
    engine = profile.engine
    assert (engine.python, engine.model, engine.tp, engine.port) == (
        "/opt/sglang/bin/python",
        "/models/Kimi-K2.5",
        4,
        31000,
    )
    assert engine.host == "0.0.0.0"
    assert engine.args == ("--mem-fraction-static", "0.9")
    assert engine.env.set == {"NCCL_P2P_LEVEL": "SYS", "CUDA_VISIBLE_DEVICES": "0,1,2,3"}
    assert engine.env.inherit == ("HF_TOKEN",)
    spec = profile.speculation
    assert (spec.algorithm, spec.drafter, spec.steps, spec.topk, spec.draft_tokens) == (
        "EAGLE3",
        "/models/eagle3",
        3,
        1,
        None,
    )
    assert len(found.notes) == 3
    assert not any("sk-abc" in note or "hf_abc" in note for note in found.notes)
    assert "left out: tail -f log" in found.notes


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("sglang serve --model-path m --tp-size 2", {"model": "m", "tp": 2}),
        ("python -m sglang.launch_server --model-path m --api-key \"$(cat '/k e y')\"", {"api_key_file": "/k e y"}),
        ("PYTHONPATH=/a:/b:$PYTHONPATH python3 -m sglang.launch_server --model m", {"pythonpath": ("/a", "/b")}),
        (
            "env -u A -u B X=1 python3 -m sglang.launch_server --model m",
            {"env": Environment(set={"X": "1"}, unset=("A", "B"))},
        ),
    ],
)
def test_forms_of_a_command_line(line, words):
    engine = commandline.imported(line).profile.engine
    assert {key: getattr(engine, key) for key in words} == words


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "starts no SGLang server"),
        ("vllm serve m", "starts no SGLang server"),
        (
            "python -m sglang.launch_server --model a; python -m sglang.launch_server --model b",
            "starts 2 SGLang servers",
        ),
        ("python -m sglang.launch_server --model 'a", "no closing quotation"),
        ("python -m sglang.launch_server --model m --tp eight", "--tp-size 'eight' is no whole number"),
        ("python -m sglang.launch_server --tp", "--tp-size has no value"),
        ("#: nonsense\npython -m sglang.launch_server --model m", "is no assignment"),
        ("#: engine.tpp=3\npython -m sglang.launch_server --model m", "did you mean engine.tp"),
    ],
)
def test_what_cannot_be_imported_is_one_line(run, line, message):
    code, out, err = run("profiles", "import", "-", stdin=line)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert message in err


def test_import_replaces_nothing_unasked(run):
    run("profiles", "save", "mine", "--from", "eagle3-8gpu")
    code, _, err = run(
        "profiles", "import", "-", "--name", "mine", stdin="python -m sglang.launch_server --model other"
    )
    assert code != 0
    assert "exists already" in err
    assert store.load("mine").engine.model != "other"
    assert run("profiles", "import", "-", "--name", "mine", "--force", stdin="sglang serve --model other")[0] == 0
    assert store.load("mine").engine.model == "other"


CELLS = {
    "cells": [
        {
            "depth": 0,
            "concurrency": 1,
            "tok_s": 82.0,
            "stream_tok_s": 82.0,
            "cycle_ms": 12.2,
            "tokens": 768,
            "requests": 3,
        },
        {"depth": 3, "concurrency": 1, "tok_s": 61.0, "stream_tok_s": 61.0, "accept_len": 2.0, "cycle_ms": 30.0},
        {"depth": 3, "concurrency": 16, "tok_s": 700.0, "stream_tok_s": 44.0, "accept_len": 2.0, "cycle_ms": 41.0},
    ]
}


def test_measurements_go_out_in_sglangs_format_and_come_back(run, tmp_path):
    profile = Profile(name="mine", engine=EngineSection(model="m"), measured={"calibrate": CELLS})
    store.save(profile)
    code, out, _ = run("profiles", "export", "mine", "--format", "bench")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert all(set(bench_jsonl.FIELDS) <= set(row) for row in rows)
    plain, story, _ = rows
    assert (plain["steps"], plain["topk"], plain["num_draft_tokens"], plain["completion_tokens"]) == (0, 0, 0, 256.0)
    assert (story["num_draft_tokens"], story["step_time"]) == (4, 0.03)
    assert story["speed"] == pytest.approx(66.667, abs=1e-3), "acc_length / step_time, as SGLang has it"
    assert story["measured_tok_s"] == 61.0
    file = tmp_path / "bench.jsonl"
    file.write_text(out)
    store.save(Profile(name="other", engine=EngineSection(model="m")))
    assert run("profiles", "import", str(file), "--name", "other")[0] == 0
    back = store.load("other").measured["calibrate"]["cells"]
    kept = ("depth", "concurrency", "tok_s", "stream_tok_s", "cycle_ms")
    assert [{key: cell[key] for key in kept} for cell in back] == [
        {key: cell[key] for key in kept} for cell in CELLS["cells"]
    ]


def test_sglangs_own_jsonl_without_our_fields():
    row = {
        "batch_size": 4,
        "steps": 3,
        "topk": 1,
        "num_draft_tokens": 4,
        "acc_length": 2.5,
        "step_time": 0.01,
        "speed": 250.0,
    }
    (cell,) = bench_jsonl.cells(json.dumps(row) + "\n\n")
    assert (cell["tok_s"], cell["stream_tok_s"], cell["cycle_ms"], cell["accept_len"]) == (1000.0, 250.0, 10.0, 2.5)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"batch_size": 1', "no JSON"),
        ('{"batch_size": 1, "steps": 1, "speed": NaN}', "NaN is no figure"),
        ('{"batch_size": 0, "steps": 1, "speed": 1}', "batch_size"),
        ('{"batch_size": 1, "steps": -1, "speed": 1}', "steps"),
        ('{"batch_size": 1, "steps": 1e9, "speed": 1}', "steps"),
        ('{"batch_size": 1, "steps": 1, "speed": -1}', "speed is no positive number"),
        ('{"batch_size": 1, "steps": 1}', "speed is missing"),
        ('{"batch_size": true, "steps": 1, "speed": 1}', "batch_size"),
    ],
)
def test_a_bad_measurement_is_named_by_its_line(run, line, why):
    good = '{"batch_size": 1, "steps": 1, "speed": 1}'
    run("profiles", "save", "mine", "--from", "eagle3-8gpu")
    code, _, err = run("profiles", "import", "-", "--name", "mine", stdin=f"{good}\n{line}\n")
    assert code == 2
    assert "line 2 is no measurement" in err
    assert why in err
    assert store.load("mine").measured == {}


def test_nothing_measured_and_nobody_to_measure(run):
    code, _, err = run("profiles", "export", "eagle3-8gpu", "--format", "bench")
    assert (code, "nothing is measured" in err) == (4, True)
    code, _, err = run("profiles", "import", "-", stdin='{"batch_size": 1, "steps": 1, "speed": 1}')
    assert (code, "which profile gets them" in err) == (2, True)


# ------------------------------------------------------------------------------------------- the running engine


def test_diff_against_what_runs(run, monkeypatch):
    run("profiles", "save", "mine", "--from", "eagle3-8gpu")
    mine = store.load("mine")

    class Agent:
        def running(self):
            return Configuration(mine, depth=5, drafter="/d/b")

    monkeypatch.setattr("console.commands._rig.connect", lambda _obj: Agent())
    code, out, _ = run("profiles", "diff", "mine", "--running")
    assert code == 0
    assert "speculation.steps" in out
    assert "3 -> 5" in out
    assert "/d/b" in out
    assert json.loads(run("profiles", "diff", "mine", "--running", "--json")[1])["running"] is True
    assert run("profiles", "diff", "mine")[0] == 2
    assert run("profiles", "diff", "mine", "simulated", "--running")[0] == 2


def test_diff_and_apply_where_nothing_runs(run):
    assert run("profiles", "diff", "eagle3-8gpu", "--running")[0] == 3
    assert run("profiles", "apply", "eagle3-8gpu", "--yes")[0] == 3
    assert run("profiles", "apply", "no-such", "--yes")[0] == 2


# ------------------------------------------------------------------------------------------------- the editor


@pytest.fixture
def editor(tmp_path, monkeypatch):
    """An editor that replaces one text by another."""

    def use(before, after, code=0):
        script = tmp_path / "editor.py"
        script.write_text(
            "import sys, pathlib\n"
            "p = pathlib.Path(sys.argv[1])\n"
            f"p.write_text(p.read_text().replace({before!r}, {after!r}))\n"
            f"sys.exit({code})\n"
        )
        monkeypatch.setenv("VISUAL", "")
        monkeypatch.setenv("EDITOR", f"python3 '{script}'")

    return use


def test_editing_keeps_comments_and_makes_a_copy_of_a_built_in(run, editor):
    editor("steps = 2", "steps = 3  # deeper")
    code, out, _ = run("profiles", "edit", "kimi-k2.5-pcie")
    assert code == 0
    path = store.folder() / "kimi-k2.5-pcie.toml"
    assert out.strip() == str(path)
    assert store.load("kimi-k2.5-pcie").speculation.steps == 3
    assert "# deeper" in path.read_text()
    assert "# One box, eight GPUs on PCIe" in path.read_text()
    assert list(store.folder().glob(".*draft*")) == []
    editor("no such words anywhere", "at all")
    code, out, err = run("profiles", "edit", "kimi-k2.5-pcie")
    assert (code, out, err.strip()) == (0, "", "nothing was changed")


def test_nothing_is_lost_when_it_is_not_valid(run, editor):
    run("profiles", "save", "mine", "--from", "eagle3-8gpu")
    before = store.path("mine").read_text()
    editor("tp = 8", 'tp = "eight"')
    code, _, err = run("profiles", "edit", "mine")
    assert code == 2
    assert "engine.tp: expected a whole number" in err
    assert "nothing is lost: your text is in" in err
    assert store.path("mine").read_text() == before
    left = store.folder() / ".mine.draft.toml"
    assert 'tp = "eight"' in left.read_text()
    assert stat.S_IMODE(left.stat().st_mode) == 0o600
    assert "mine" in store.names()
    assert store.listing().problems == (), "a draft is no broken profile"
    editor('tp = "eight"', "tp = 4")
    code, _, err = run("profiles", "edit", "mine")
    assert code == 0
    assert "going on with the text that was left" in err
    assert store.load("mine").engine.tp == 4
    assert not left.exists()


@pytest.mark.parametrize(
    ("after", "message"),
    [
        ("tp = 8\n[broken", "line"),
        ("tpp = 8", "did you mean engine.tp"),
        ("tp = nan", "engine.tp"),
        ('tp = 8\nrevision = "hf_abcdefghijklmnopqrstuvwxyz"', "looks like a secret"),
    ],
)
def test_what_an_editor_can_leave(run, editor, after, message):
    run("profiles", "save", "mine", "--from", "eagle3-8gpu")
    editor("tp = 8", after)
    code, _, err = run("profiles", "edit", "mine")
    assert code == 2
    assert message in err
    assert "hf_abc" not in err
    assert err.count("\n") == 1


def test_somebody_else_saves_while_it_is_edited(run):
    run("profiles", "save", "mine", "--from", "eagle3-8gpu")
    work = draft.begin("mine")
    work.path.write_text(work.path.read_text().replace("tp = 8", "tp = 2"))
    run("profiles", "save", "mine", "engine.tp=4")
    with pytest.raises(ConsoleError, match="changed by somebody else - nothing is lost"):
        draft.finish(work)
    assert store.load("mine").engine.tp == 4
    assert "tp = 2" in work.path.read_text()


def test_an_editor_that_fails_or_is_not_there(run, editor, monkeypatch):
    run("profiles", "save", "mine", "--from", "eagle3-8gpu")
    editor("tp = 8", "tp = 2", code=3)
    code, _, err = run("profiles", "edit", "mine")
    assert (code, "ended with code 3" in err, "nothing is lost" in err) == (1, True, True)
    assert store.load("mine").engine.tp == 8
    monkeypatch.setenv("EDITOR", "/no/such/editor")
    code, _, err = run("profiles", "edit", "mine")
    assert (code, "cannot start /no/such/editor" in err) == (1, True)
    assert run("profiles", "edit", "no-such-profile")[0] == 2
