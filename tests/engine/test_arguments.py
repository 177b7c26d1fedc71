import json
import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given as random
from hypothesis import strategies as st

from console.engine import arguments, flags
from console.engine.arguments import build, export, masked_command, write_files
from console.errors import ConsoleError
from profiles.schema import EngineSection, Environment, Profile, Speculation
from tests.engine import fixtures

NEW, OLD = (0, 5, 23), (0, 5, 17)


def profile(*, engine=None, **speculation):
    section = {"model": "org/target", **(engine or {})}
    return Profile(name="t", engine=EngineSection(**section), speculation=Speculation(**speculation))


def launch(what, version=NEW, **more):
    return build(what, version=version, python="/py", run_dir=Path("/run/x"), **more)


def given(built):
    return flags.values(built.argv[3:])


EAGLE3 = {"algorithm": "EAGLE3", "drafter": "org/drafter"}


def test_a_plain_launch():
    built = launch(profile(engine={"tp": 8, "port": 31000}))
    assert built.argv == (
        *("/py", "-m", "sglang.launch_server", "--model-path", "org/target", "--host", "127.0.0.1"),
        *("--port", "31000", "--tp-size", "8", "--enable-metrics"),
    )
    assert built.env["SGLANG_ENABLE_METRICS_DEVICE_TIMER"] == "1"
    assert built.files == {}
    assert built.depth is None


def test_all_three_numbers_or_none():
    full = given(launch(profile(**EAGLE3, steps=3)))
    assert (
        full["--speculative-num-steps"],
        full["--speculative-eagle-topk"],
        full["--speculative-num-draft-tokens"],
    ) == ("3", "1", "4")
    none = launch(profile(**EAGLE3))
    assert not any(flag.startswith("--speculative-num") or "topk" in flag for flag in given(none))
    assert any("SGLang chooses" in text for text in none.warnings)


@pytest.mark.parametrize(
    ("numbers", "argv", "warning"),
    [
        ({"draft_tokens": 4}, ("3", "1", "4"), ""),
        ({"steps": 4, "topk": 1, "draft_tokens": 24}, ("4", "1", "5"), "draft_tokens 24 is not used"),
        ({"steps": 3, "topk": 4, "draft_tokens": 8}, ("3", "4", "8"), ""),
        ({"steps": 1, "topk": 4, "draft_tokens": 64}, ("1", "4", "64"), "more than a tree"),
    ],
)
def test_numbers_are_completed(numbers, argv, warning):
    built = launch(profile(**EAGLE3, **numbers))
    found = given(built)
    assert (
        found["--speculative-num-steps"],
        found["--speculative-eagle-topk"],
        found["--speculative-num-draft-tokens"],
    ) == argv
    assert any(warning in text for text in built.warnings) or not warning


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ({**EAGLE3, "topk": 2}, "speculation.steps is missing"),
        ({**EAGLE3, "steps": 3, "topk": 2}, "speculation.draft_tokens is missing"),
        ({"algorithm": "EAGLE3", "steps": 3}, "EAGLE3 needs a drafter"),
        ({**EAGLE3, "topk": 4, "candidate_steps": (1, 3)}, "candidate_steps do not go with topk 4"),
        (
            {"algorithm": "STANDALONE", "drafter": "x/y", "candidate_steps": (1, 3)},
            "candidate_steps do not go with algorithm STANDALONE",
        ),
        ({**EAGLE3, "candidate_steps": (0,)}, "no depth above 0"),
    ],
)
def test_what_would_crash_is_refused(what, line):
    with pytest.raises(ConsoleError, match=line) as refused:
        launch(profile(**what))
    assert refused.value.todo


def test_an_eagle3_drafter_under_eagle_is_refused(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLMEagle3"]}))
    with pytest.raises(ConsoleError, match=r'speculation\.algorithm to "EAGLE3"'):
        launch(profile(algorithm="EAGLE", drafter=str(tmp_path), steps=3))
    assert launch(profile(algorithm="EAGLE3", drafter=str(tmp_path), steps=3)).depth == 3


def test_folders_that_do_not_exist_are_refused_before_anything_is_stopped():
    with pytest.raises(ConsoleError, match=r"speculation\.drafter /no/such does not exist"):
        launch(profile(algorithm="EAGLE3", drafter="/no/such", steps=3))
    with pytest.raises(ConsoleError, match=r"engine\.model /no/such does not exist"):
        launch(profile(engine={"model": "/no/such"}))
    assert launch(profile(engine={"model": "/no/such", "module": "console.simulate"})).argv[2] == "console.simulate"


def test_depth_zero_without_prebuilt_depths_is_no_speculation():
    built = launch(profile(**EAGLE3, steps=0))
    assert not any("speculative" in word for word in built.argv)
    assert any("without speculation" in text for text in built.warnings)


@pytest.mark.parametrize(
    ("version", "candidates", "steps", "config", "depth"),
    [
        (NEW, (1, 2, 3, 5), 3, {"1": {"candidate_steps": [1, 2, 3, 5]}}, 3),
        (NEW, (0, 1, 3), 2, {"1": {"candidate_steps": [0, 1, 2, 3]}}, 2),
        (None, (1, 3), 1, {"1": {"candidate_steps": [1, 3]}}, 1),
        (OLD, (1, 2, 3, 5), 3, {"1": {"candidate_steps": [1, 2, 3, 5]}}, 5),
        ((0, 5, 17, 1), (1, 5), 1, {"1": {"candidate_steps": [1, 5]}}, 5),
        ((0, 5, 18), (1, 5), 1, {"1": {"candidate_steps": [1, 5]}}, 1),
        ((0, 5, 13, 1), (0, 1, 3), 1, {"1": {"candidate_steps": [1, 3]}}, 3),
        ((0, 5, 12, 1), (1, 3), 3, {"candidate_steps": [1, 3]}, 3),
        (NEW, (1, 3, 5), None, {"1": {"candidate_steps": [1, 3, 5]}}, 3),
    ],
)
def test_prebuilt_depths_by_version(version, candidates, steps, config, depth):
    built = launch(profile(**EAGLE3, steps=steps, candidate_steps=candidates), version)
    ((path, text),) = built.files.items()
    assert json.loads(text) == config
    found = given(built)
    assert found["--speculative-adaptive-config"] == str(path)
    assert "--speculative-adaptive" in found
    assert int(found["--speculative-num-steps"]) == built.depth == depth
    assert int(found["--speculative-num-draft-tokens"]) == depth + 1
    assert built.wanted_depth == (steps if steps is not None else 3)
    assert any("must start at the deepest" in text for text in built.warnings) is (depth != built.wanted_depth)


def test_before_adaptive_depths_the_depth_is_fixed():
    built = launch(profile(**EAGLE3, steps=3, candidate_steps=(1, 3)), (0, 5, 10, 1))
    assert "--speculative-adaptive" not in built.argv
    assert built.candidate_steps == ()
    assert any("restart" in text for text in built.warnings)


@pytest.mark.parametrize(
    ("version", "given_flag", "wanted"),
    [
        (NEW, "--cuda-graph-max-bs", "--cuda-graph-max-bs-decode"),
        (OLD, "--cuda-graph-max-bs", "--cuda-graph-max-bs-decode"),
        ((0, 5, 14), "--cuda-graph-max-bs-decode", "--cuda-graph-max-bs"),
        ((0, 5, 14), "--cuda-graph-max-bs", "--cuda-graph-max-bs"),
        (NEW, "--cuda-graph-bs", "--cuda-graph-bs-decode"),
    ],
)
@pytest.mark.parametrize("joined", [True, False])
def test_graph_flags_are_spelled_as_the_version_wants(version, given_flag, wanted, joined):
    words = (f"{given_flag}=32",) if joined else (given_flag, "32")
    built = launch(profile(engine={"args": words}), version)
    assert given(built)[wanted] == "32"
    assert (given_flag in given(built)) is (given_flag == wanted)
    assert any(given_flag in text for text in built.warnings) is (given_flag != wanted)


def test_the_profiles_own_arguments_win_and_are_not_repeated():
    args = ("--host=0.0.0.0", "--tp", "4", "--speculative-num-steps", "5", "--enable-metrics", "--model", "org/other")
    built = launch(profile(engine={"args": args, "tp": 8}, **EAGLE3, steps=3))
    names = [flags.canonical(word) for word in built.argv if word.startswith("--")]
    assert len(names) == len(set(names))
    found = given(built)
    assert (found["--host"], found["--tp-size"], found["--model-path"], found["--speculative-num-steps"]) == (
        "0.0.0.0",
        "4",
        "org/other",
        "5",
    )
    assert found["--speculative-num-draft-tokens"] == "6"
    assert any("0.0.0.0 without an API key" in text for text in built.warnings)


def test_keys_travel_in_a_private_file(tmp_path):
    (tmp_path / "key").write_text("open-sesame\n")
    built = build(
        profile(engine={"api_key_file": str(tmp_path / "key")}),
        version=NEW,
        python="/py",
        run_dir=tmp_path / "run",
        admin_key="admin-sesame",
    )
    assert "sesame" not in " ".join(built.argv)
    assert built.argv[-2:] == ("--config", str(tmp_path / "run" / "engine-secrets.yaml"))
    write_files(built.files)
    written = tmp_path / "run" / "engine-secrets.yaml"
    assert json.loads(written.read_text()) == {"api-key": "open-sesame", "admin-api-key": "admin-sesame"}
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert list(written.parent.iterdir()) == [written]


def test_a_key_in_the_arguments_is_moved_out_of_them_and_told():
    built = launch(profile(engine={"args": ("--api-key", "open-sesame", "--context-length", "4096")}))
    assert "open-sesame" not in built.argv
    assert any("should hold no secret" in text and "open-sesame" not in text for text in built.warnings)
    assert given(built)["--context-length"] == "4096"


def test_a_config_of_the_profiles_own_leaves_only_the_command_line():
    built = launch(profile(engine={"args": ("--config", "mine.yaml")}), admin_key="admin-sesame")
    assert built.argv.count("--config") == 1
    assert given(built)["--admin-api-key"] == "admin-sesame"
    assert "admin-sesame" not in built.command
    assert any("process list" in text for text in built.warnings)


def test_bad_keys_are_refused(tmp_path):
    with pytest.raises(ConsoleError, match="cannot be used"):
        launch(profile(), admin_key="-starts-with-a-dash")
    with pytest.raises(ConsoleError, match="cannot be read"):
        launch(profile(engine={"api_key_file": str(tmp_path / "none")}))
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(ConsoleError, match="is empty"):
        launch(profile(engine={"api_key_file": str(tmp_path / "empty")}))


def test_environment_is_inherited_then_unset_then_set(monkeypatch):
    monkeypatch.setenv("NCCL_P2P_LEVEL", "PIX")
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "/old")
    monkeypatch.setenv("PYTHONPATH", "/theirs")
    monkeypatch.setenv("DROP_ME", "1")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    section = {
        "env": Environment(set={"NCCL_CUMEM_ENABLE": "1"}, unset=("DROP_ME",), inherit=("HF_TOKEN", "NCCL_P2P_LEVEL")),
        "pythonpath": ("/mine",),
    }
    built = launch(profile(engine=section), probe_dir=Path("/probe"))
    assert (built.env["NCCL_P2P_LEVEL"], built.env["NCCL_CUMEM_ENABLE"]) == ("PIX", "1")
    assert "DROP_ME" not in built.env
    assert "PROMETHEUS_MULTIPROC_DIR" not in built.env
    assert built.env["PYTHONPATH"].split(os.pathsep) == [str(arguments.PROBE_FOLDER), "/mine", "/theirs"]
    assert built.env["SGLANG_CONSOLE_PROBE_DIR"] == "/probe"
    assert [text for text in built.warnings if "inherit" in text] == [
        "HF_TOKEN is named in env.inherit and is not set here"
    ]


def test_the_probe_needs_a_version_that_loads_plugins():
    assert launch(profile(), probe_dir=Path("/p")).probe
    assert launch(profile(), None, probe_dir=Path("/p")).probe
    assert not launch(profile(engine={"probe": False}), probe_dir=Path("/p")).probe
    old = launch(profile(), (0, 5, 10, 1), probe_dir=Path("/p"))
    assert not old.probe
    assert "SGLANG_CONSOLE_PROBE_DIR" not in old.env
    assert any("0.5.11" in text for text in old.warnings)


def test_the_device_timer_is_left_off_where_it_kills():
    assert launch(profile(engine={"args": ("--device", "cpu")})).env["SGLANG_ENABLE_METRICS_DEVICE_TIMER"] == "0"
    assert launch(profile(engine={"device_timer": False})).env["SGLANG_ENABLE_METRICS_DEVICE_TIMER"] == "0"


def test_a_shown_command_holds_no_secret():
    shown = masked_command(
        ["py", "--api-key", "hush-hush", "--x", "a b"], {"HF_TOKEN": "hush-hush", "SGLANG_X": "1", "HOME": "/root"}
    )
    assert shown == "HF_TOKEN='***' SGLANG_X=1 py --api-key '***' --x 'a b'"


def test_an_exported_line_is_plain_shell_and_runs(tmp_path):
    echo = tmp_path / "py"
    echo.write_text('#!/bin/sh\necho "$SGLANG_ENABLE_METRICS_DEVICE_TIMER|$A|$@"\n')
    echo.chmod(0o700)
    (tmp_path / "key").write_text("open-sesame")
    section = {
        "python": str(echo),
        "env": Environment(set={"A": "x y"}, unset=("B",)),
        "api_key_file": str(tmp_path / "key"),
        "args": ("--q", "it's"),
    }
    line = export(profile(engine=section, **EAGLE3, steps=3, candidate_steps=(1, 3)), version=NEW)
    assert "open-sesame" not in line
    assert "\n" not in line
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True, timeout=10)
    timer, variable, words = done.stdout.strip().split("|")
    assert (timer, variable) == ("1", "x y")
    assert words.endswith("--q it's --api-key open-sesame")
    config = Path(flags.values(words.split())["--speculative-adaptive-config"])
    assert json.loads(config.read_text()) == {"1": {"candidate_steps": [1, 3]}}


@pytest.mark.parametrize("path", sorted(fixtures.ROOT.rglob("cmd.json")), ids=fixtures.name)
def test_captured_command_lines_come_out_of_a_profile_again(path):
    command = json.loads(path.read_text())
    words = command["cmd"]
    own = flags.values(words[3:])
    what = Profile(
        name="t",
        engine=EngineSection(
            python=words[0],
            model=own["--model-path"],
            module="console.simulate",
            port=int(own["--port"]),
            args=tuple(words[3:]),
        ),
    )
    built = build(what, version=NEW if "0.5.23" in str(path) else OLD, python=words[0], run_dir=Path("/run"))
    found = given(built)
    assert {flag.replace("-max-bs-decode", "-max-bs"): value for flag, value in found.items()} == {
        flag.replace("-max-bs-decode", "-max-bs"): value for flag, value in own.items()
    }
    assert shlex.split(masked_command(built.argv)) == list(built.argv)


def test_unwritable_files_are_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConsoleError, match="cannot write"):
        write_files({tmp_path / "file" / "x": "y"})


def test_a_profile_without_a_model_is_refused():
    with pytest.raises(ConsoleError, match="names no model"):
        launch(msgspec.structs.replace(profile(), engine=EngineSection()))


def test_the_interpreter_is_what_was_located():
    assert build(profile(), version=NEW, python=sys.executable, run_dir=Path("/r")).argv[0] == sys.executable


NUMBER = st.none() | st.integers(1, 64)
ARGS = st.lists(
    st.sampled_from(["--tp", "--host", "0.0.0.0", "--config", "--api-key", "x", "--speculative-num-steps", "3", "--speculative-adaptive", "--cuda-graph-bs", "-", "--", "", "--=", "--speculative-algorithm=NGRAM"]),
    max_size=6,
)  # fmt: skip
VERSION = st.none() | st.tuples(st.integers(0, 1), st.integers(0, 9), st.integers(0, 40))


@random(
    algorithm=st.sampled_from(["", "EAGLE", "eagle3", "NEXTN", "STANDALONE", "NGRAM", "DFLASH", "WHATEVER"]),
    drafter=st.sampled_from(["", "org/drafter"]),
    steps=st.none() | st.integers(0, 64),
    topk=NUMBER,
    draft_tokens=NUMBER,
    candidates=st.lists(st.integers(0, 64), max_size=4).map(tuple),
    args=ARGS.map(tuple),
    version=VERSION,
)
def test_every_profile_gives_a_launch_or_one_line(
    algorithm, drafter, steps, topk, draft_tokens, candidates, args, version
):
    what = profile(
        engine={"args": args},
        algorithm=algorithm,
        drafter=drafter,
        steps=steps,
        topk=topk,
        draft_tokens=draft_tokens,
        candidate_steps=candidates,
    )
    try:
        built = launch(what, version, probe_dir=Path("/p"), admin_key="admin-sesame")
    except ConsoleError as refused:
        assert "\n" not in refused.line
        return
    found = given(built)
    assert "admin-sesame" not in built.command
    numbers = [found.get(f"--speculative-{name}") for name in ("num-steps", "eagle-topk", "num-draft-tokens")]
    chain = found.get("--speculative-algorithm", "").upper() in {"EAGLE", "EAGLE3", "NEXTN", "STANDALONE"}
    if chain and "--speculative-adaptive" not in args:
        assert all(numbers) or not any(numbers)
        if all(numbers) and numbers[1] == "1":
            assert int(numbers[2]) == int(numbers[0]) + 1
    for text in built.files.values():
        json.loads(text)
