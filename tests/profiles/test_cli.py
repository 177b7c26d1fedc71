"""``console profiles`` and ``console completion``."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from console.cli import main
from profiles import store


@pytest.fixture
def run(capsys):
    def call(*arguments):
        try:
            main([*arguments])
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_list(run, put):
    put("broken.toml", "x = 1\n")
    put("simulated.toml", 'description = "mine \\u001b[31m"\n')
    code, out, err = run("profiles", "list")
    assert code == 0
    assert "mine \\x1b[31m (yours, hides the built-in)" in out
    assert "kimi-k2.5-pcie" in out
    assert err.count("\n") == 1
    assert "broken.toml: x: unknown key" in err
    code, out, err = run("profiles", "list", "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert {row["name"]: row["hides_builtin"] for row in found["profiles"]}["simulated"] is True
    assert [problem["path"].rsplit("/")[-1] for problem in found["problems"]] == ["broken.toml"]


def test_show(run):
    code, out, err = run("profiles", "show", "simulated")
    assert (code, out.rstrip()) == (0, store.path("simulated").read_text().rstrip())
    assert "(built-in)" in err
    found = json.loads(run("profiles", "show", "simulated", "--json")[1])
    assert (found["engine"]["tp"], found["engine"]["module"]) == (8, "console.simulate")
    code, out, err = run("profiles", "show", "nope", "--json")
    assert (code, out) == (2, "")
    assert err == "console: there is no profile nope - see: console profiles list\n"


def test_show_json_holds_the_defaults_too(run):
    found = json.loads(run("profiles", "show", "eagle3-8gpu", "--json")[1])
    assert found["engine"]["host"] == "127.0.0.1"
    assert found["guard"]["window_s"] == 30.0


def test_path(run):
    assert run("profiles", "path")[1].strip() == str(store.folder())
    assert run("profiles", "path", "simulated")[1].strip().endswith("builtin/simulated.toml")
    assert json.loads(run("profiles", "path", "simulated", "--json")[1])["origin"] == "built-in"


def test_save_and_diff(run):
    code, out, _ = run(
        "profiles", "save", "mine", "--from", "eagle3-8gpu", "engine.tp=4", "engine.model=/models/my target",
        "targets.goals_tok_s=150,200", "engine.env.set.NCCL_DEBUG=INFO", "speculation.candidate_steps=[0, 3]", "engine.revision=123",
        "engine.probe=false", "guard.min_accept_len=",
    )  # fmt: skip
    assert (code, out.strip()) == (0, str(store.folder() / "mine.toml"))
    mine = store.load("mine")
    assert (mine.engine.tp, mine.engine.model, mine.engine.revision, mine.engine.probe) == (
        4,
        "/models/my target",
        "123",
        False,
    )
    assert (mine.targets.goals_tok_s, mine.speculation.candidate_steps) == ((150.0, 200.0), (0, 3))
    assert (mine.engine.env.set["NCCL_DEBUG"], mine.guard.min_accept_len) == ("INFO", None)
    code, out, _ = run("profiles", "diff", "eagle3-8gpu", "mine", "--json")
    rows = {row["key"]: (row["a"], row["b"]) for row in json.loads(out)["differences"]}
    assert code == 0
    assert rows["engine.tp"] == (8, 4)
    assert rows["guard.min_accept_len"] == (1.2, None)
    assert "engine.tp" in run("profiles", "diff", "eagle3-8gpu", "mine")[1]
    assert json.loads(run("profiles", "diff", "mine", "mine", "--json")[1])["same"] is True


def test_save_edits_renames_and_replaces(run):
    assert run("profiles", "save", "a", "--from", "simulated")[0] == 0
    assert run("profiles", "save", "a", "speculation.steps=4")[0] == 0
    assert store.load("a").speculation.steps == 4
    code, _, err = run("profiles", "save", "a", "--from", "tiny-eagle3")
    assert (code, err.count("\n")) == (1, 1)
    assert "exists already" in err
    assert run("profiles", "save", "b", "--from", "a", "--rename", "engine.tp=2")[0] == 0
    assert (store.load("b").engine.tp, store.load("b").speculation.steps) == (2, 4)
    assert not (store.folder() / "a.toml").exists()
    assert run("profiles", "save", "b", "--from", "tiny-eagle3", "--force")[0] == 0
    assert store.load("b").engine.model == "/tmp/ckpt/target"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "there is no profile nope"),
        (["a b", "--from", "simulated"], "is no profile name"),
        (["../x", "--from", "simulated"], "is no profile name"),
        (["m", "--from", "simulated", "engine.tpp=1"], "engine.tpp: unknown key; did you mean engine.tp?"),
        (["m", "--from", "simulated", "engine.tp=x"], "engine.tp: expected a whole number, got text"),
        (["m", "--from", "simulated", "engine.tp=0"], "engine.tp: must be >= 1"),
        (["m", "--from", "simulated", "engine.tp"], "is no assignment"),
        (["m", "--from", "simulated", "engine=3"], "engine: expected a table"),
        (["m", "--from", "simulated", "engine.tp.x=3"], "unknown key"),
        (["m", "--from", "simulated", "=3"], "unknown key"),
        (["m", "--from", "simulated", "name=x"], "the name is not a key to change"),
        (["m", "--from", "simulated", "engine.env.set.HF_TOKEN=abcdef"], "looks like a secret"),
        (["m", "--from", "simulated", "guard.window_s=nan"], "must be a finite number"),
        (["m", "--rename"], "there is no profile m"),
        (["simulated", "--rename"], "--rename needs --from"),
    ],
)
def test_save_refuses_in_one_line(run, arguments, message):
    code, out, err = run("profiles", "save", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert "abcdef" not in err
    assert not list(store.folder().glob("*.toml"))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(run, shell):
    code, out, err = run("completion", shell)
    assert (code, err) == (0, "")
    assert f"_CONSOLE_COMPLETE={shell}_complete" in out


def test_completion_knows_profile_names(home):
    environment = {
        **os.environ, "SGLANG_CONSOLE_HOME": str(home), "COMP_WORDS": "console profiles show ti", "COMP_CWORD": "3",
        "_CONSOLE_COMPLETE": "bash_complete",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", "from console.cli import main; main([])"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split() == ["plain,tiny-eagle3", "plain,tiny-eagle3-cpu"]
