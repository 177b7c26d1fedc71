"""Listing, loading and saving: nothing is lost, nobody else's change is overwritten."""

from __future__ import annotations

import multiprocessing
import os
import stat
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from console.errors import ConsoleError, ExitCode
from profiles import edit, keys, read, secrets, store, write
from profiles.schema import (
    BaselineSection,
    EngineSection,
    Environment,
    Guard,
    Profile,
    Speculation,
    TargetsSection,
)

BUILTINS = {"simulated", "kimi-k2.5-pcie", "eagle3-8gpu", "tiny-eagle3", "tiny-eagle3-cpu"}
COMMENTED = """\
# top comment
[engine]   # the engine
tp = 4     # four of eight
args = [
    "--a", # first
    "--b", # second
]

# about speculation
[speculation]
steps = 2  # story
"""


def changed(profile: Profile, section: str, **values) -> Profile:
    return msgspec.structs.replace(profile, **{section: msgspec.structs.replace(getattr(profile, section), **values)})


# ------------------------------------------------------------------------------------------------ listing


def test_builtins_load_without_a_folder():
    found = store.listing()
    assert {entry.name for entry in found.entries} == BUILTINS
    assert found.problems == ()
    assert not store.folder().exists()
    assert all(entry.origin == "built-in" and entry.profile.description for entry in found.entries)


def test_the_box_of_the_story():
    box = store.load("kimi-k2.5-pcie")
    assert (box.engine.tp, box.speculation.algorithm, box.speculation.steps) == (8, "EAGLE3", 2)
    assert "AQ-MedAI/Kimi-K2-Instruct-eagle3" in box.speculation.drafters
    assert (box.targets.baseline.tok_s, box.targets.goals_tok_s) == (82, (150, 200))


def test_the_simulated_rig():
    rig = store.load("simulated")
    assert (rig.engine.module, rig.engine.simulated, rig.engine.tp) == ("console.simulate", True, 8)
    assert rig.speculation.candidate_steps == (0, 1, 2, 3, 4, 5, 6)
    assert set(rig.speculation.drafters) == {"sim/own-37k", "sim/kimi-k2-instruct-eagle3", "sim/silent"}
    assert (rig.targets.baseline.tok_s, rig.targets.goals_tok_s) == (82, (150, 200))


def test_the_cpu_pair_leaves_the_device_timer_off():
    assert store.load("tiny-eagle3-cpu").engine.device_timer is False
    assert store.load("tiny-eagle3").engine.device_timer is True


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_builtins_launch_from_one_of_their_own_depths(name):
    spec = store.load(name).speculation
    assert spec.steps in spec.candidate_steps
    assert spec.candidate_steps == tuple(sorted(set(spec.candidate_steps)))
    assert spec.topk == 1


def test_a_broken_file_hides_nothing(put):
    put("good.toml", "[engine]\ntp = 2\n")
    broken = put("broken.toml", "[engine\n")
    put("simulated.toml", "nonsense = 1\n")
    put(".hidden.toml", "x")
    put("notes.txt", "x")
    found = store.listing()
    assert {entry.name for entry in found.entries} == BUILTINS | {"good"}
    assert {problem.path.name for problem in found.problems} == {"broken.toml", "simulated.toml"}
    assert next(p.message for p in found.problems if p.path == broken).startswith(f"{broken}: line 1, column 8: ")
    with pytest.raises(ConsoleError, match="nonsense: unknown key"):
        store.load("simulated")


def test_yours_hides_the_builtin_and_says_so(put):
    put("simulated.toml", 'description = "mine"\n')
    entry = next(entry for entry in store.listing().entries if entry.name == "simulated")
    assert (entry.origin, entry.hides_builtin, entry.profile.description) == ("yours", True, "mine")
    assert store.load("simulated").description == "mine"


def test_a_folder_that_cannot_be_read_is_a_problem(home):
    (home / "config").mkdir(parents=True)
    (home / "config" / "profiles").write_text("a file where the folder should be")
    found = store.listing()
    assert {entry.name for entry in found.entries} == BUILTINS
    assert "cannot be read: Not a directory" in found.problems[0].message
    with pytest.raises(ConsoleError, match="cannot write"):
        store.save(Profile(name="a"))


def test_names_paths_and_what_is_neither(put, tmp_path):
    path = put("mine.toml", "[engine]\ntp = 2\n")
    assert store.path("mine") == path
    assert store.names() == tuple(sorted(BUILTINS | {"mine"}))
    elsewhere = tmp_path / "else.toml"
    elsewhere.write_text("[engine]\ntp = 3\n")
    assert store.load(str(elsewhere)).engine.tp == 3
    assert store.load(elsewhere).name == "else"
    for name, message in {
        "simulatd": "did you mean simulated",
        "zzz": "profiles list",
        "a b": "no profile name",
        "": "no",
    }.items():
        with pytest.raises(ConsoleError, match=message) as caught:
            store.load(name)
        assert caught.value.code is ExitCode.USAGE


# ------------------------------------------------------------------------------------------------- saving


def test_comments_order_and_spacing_survive(put):
    path = put("a.toml", COMMENTED)
    before = store.load("a")
    store.save(changed(changed(before, "engine", tp=8), "speculation", steps=3, topk=1), based_on=before)
    assert path.read_text() == COMMENTED.replace("tp = 4 ", "tp = 8 ").replace(
        "steps = 2  # story\n", "steps = 3  # story\ntopk = 1\n"
    )


def test_comments_inside_a_list_survive(put):
    path = put("a.toml", COMMENTED)
    before = store.load("a")
    store.save(changed(before, "engine", args=("--a", "--c", "--d")), based_on=before)
    text = path.read_text()
    assert '"--a", # first' in text
    assert '"--c", # second' in text
    assert tomllib.loads(text)["engine"]["args"] == ["--a", "--c", "--d"]
    now = store.load("a")
    store.save(changed(now, "engine", args=("--a",)), based_on=now)
    assert store.load("a").engine.args == ("--a",)
    assert "# first" in path.read_text()


def test_back_to_the_default_removes_the_key(put):
    path = put("a.toml", COMMENTED)
    before = store.load("a")
    store.save(changed(before, "engine", tp=1, args=()), based_on=before)
    assert "tp" not in path.read_text()
    assert "# the engine" in path.read_text()
    assert store.load("a").engine == EngineSection()


def test_windows_line_ends_survive(put):
    path = put("a.toml", COMMENTED.replace("\n", "\r\n"))
    before = store.load("a")
    store.save(changed(before, "engine", tp=8), based_on=before)
    assert path.read_bytes() == COMMENTED.replace("tp = 4 ", "tp = 8 ").replace("\n", "\r\n").encode()


def test_a_builtin_is_copied_with_its_comments_and_stays(put):
    origin = store.path("simulated")
    text = origin.read_text()
    before = store.load("simulated")
    path = store.save(changed(before, "speculation", steps=3), based_on=before)
    assert path == store.folder() / "simulated.toml"
    assert origin.read_text() == text
    assert path.read_text() == text.replace("steps = 2\n", "steps = 3\n")
    copy = store.save(msgspec.structs.replace(before, name="mine"), based_on=before)
    assert "# prebuilt: each of them is one key away" in copy.read_text()
    with pytest.raises(ConsoleError, match="is built in"):
        store.save(before, to=origin, overwrite=True)


def test_two_consoles_change_different_keys_and_both_survive(put):
    put("a.toml", COMMENTED)
    one = other = store.load("a")
    store.save(changed(one, "engine", tp=8), based_on=one)
    store.save(changed(other, "speculation", steps=5), based_on=other)
    found = store.load("a")
    assert (found.engine.tp, found.speculation.steps) == (8, 5)


def test_two_consoles_change_the_same_key_and_the_second_is_told(put):
    put("a.toml", COMMENTED)
    one = other = store.load("a")
    store.save(changed(one, "engine", tp=8), based_on=one)
    with pytest.raises(ConsoleError, match=r"changed by somebody else - engine\.tp is 8 now - load the profile again"):
        store.save(changed(other, "engine", tp=2), based_on=other)
    assert store.load("a").engine.tp == 8
    store.save(changed(other, "engine", tp=8), based_on=other)


def _save_one(home: str, number: int) -> None:
    os.environ["SGLANG_CONSOLE_HOME"] = home
    before = store.load("a")
    for _ in range(5):
        now = store.load("a")
        mine = {**before.engine.env.set, **now.engine.env.set, f"V{number}": str(number)}
        store.save(changed(now, "engine", env=Environment(set=mine)), based_on=now)


def test_many_consoles_at_once_lose_nothing(put, home):
    put("a.toml", COMMENTED)
    context = multiprocessing.get_context("spawn")
    crowd = [context.Process(target=_save_one, args=(str(home), number)) for number in range(3)]
    for process in crowd:
        process.start()
    for process in crowd:
        process.join(60)
    assert [process.exitcode for process in crowd] == [0, 0, 0]
    assert store.load("a").engine.env.set == {"V0": "0", "V1": "1", "V2": "2"}
    assert [path.name for path in store.folder().iterdir() if path.name not in {"a.toml", ".lock"}] == []


def test_an_existing_file_is_replaced_only_when_asked(put):
    put("a.toml", COMMENTED)
    new = Profile(name="a", description="new")
    with pytest.raises(ConsoleError, match="exists already"):
        store.save(new)
    with pytest.raises(ConsoleError, match="exists already"):
        store.save(new, based_on=store.load("simulated"))
    assert store.load("a").engine.tp == 4
    store.save(new, overwrite=True)
    assert store.load("a") == new


def test_a_broken_file_is_not_written_over(put):
    path = put("a.toml", "[engine\n")
    with pytest.raises(ConsoleError, match="at the end"):
        store.save(Profile(name="a"), overwrite=True)
    assert path.read_text() == "[engine\n"


def test_a_secret_or_a_bad_value_is_never_written():
    with pytest.raises(ConsoleError, match=r"engine\.env\.set\.HF_TOKEN: looks like a secret"):
        store.save(Profile(name="a", engine=EngineSection(env=Environment(set={"HF_TOKEN": "abcdef"}))))
    with pytest.raises(ConsoleError, match=r"engine\.tp: must be >= 1"):
        store.save(Profile(name="a", engine=EngineSection(tp=0)))
    with pytest.raises(ConsoleError, match="finite"):
        store.save(Profile(name="a", guard=Guard(min_accept_len=float("nan"))))
    with pytest.raises(ConsoleError, match="no profile name"):
        store.save(Profile(name="../a"))
    assert not list(store.folder().glob("*.toml"))


def test_mode_and_links_are_kept(put, tmp_path):
    real = tmp_path / "dotfiles.toml"
    real.write_text(COMMENTED)
    real.chmod(0o640)
    store.folder().mkdir(parents=True)
    (store.folder() / "a.toml").symlink_to(real)
    before = store.load("a")
    store.save(changed(before, "engine", tp=8), based_on=before)
    assert (store.folder() / "a.toml").is_symlink()
    assert "tp = 8" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("number", "why"), [(30, "Read-only file system"), (28, "No space left on device"), (13, "Permission denied")]
)
@pytest.mark.parametrize("step", ["tempfile.mkstemp", "os.fsync", "pathlib.Path.replace"])
def test_a_write_that_fails_is_one_line_and_leaves_the_old_file(put, monkeypatch, number, why, step):
    path = put("a.toml", COMMENTED)
    before = store.load("a")

    def fail(*_args, **_options):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(step, fail)
    with pytest.raises(ConsoleError, match=rf"cannot write .*a\.toml - {why}") as caught:
        store.save(changed(before, "engine", tp=8), based_on=before)
    monkeypatch.undo()
    assert "\n" not in caught.value.line
    assert path.read_text() == COMMENTED
    assert sorted(p.name for p in path.parent.iterdir()) == [".lock", "a.toml"]


def test_a_lock_that_is_held_is_waited_for_then_named(put, monkeypatch):
    put("a.toml", COMMENTED)
    monkeypatch.setattr(write, "LOCK_WAIT_S", 0.1)
    before = store.load("a")
    with write.locked(store.folder()), pytest.raises(ConsoleError, match="being written by another console"):
        store.save(changed(before, "engine", tp=8), based_on=before)


def test_a_save_waits_for_the_other(put):
    put("a.toml", COMMENTED)
    before = store.load("a")
    other = threading.Thread(target=lambda: store.save(changed(before, "engine", tp=8), based_on=before))
    with write.locked(store.folder()):
        other.start()
        other.join(0.1)
        assert other.is_alive()
    other.join(10)
    assert store.load("a").engine.tp == 8


def test_a_profile_named_by_path_is_saved_where_it_is(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(COMMENTED)
    before = store.load(path)
    store.save(changed(before, "engine", tp=8), based_on=before, to=path)
    assert "tp = 8     # four of eight" in path.read_text()


def test_rename(put):
    path = put("a.toml", COMMENTED)
    new = store.rename("a", "b")
    assert not path.exists()
    text = new.read_text()
    assert text.replace('name = "b"\n', "").split() == COMMENTED.split()
    assert tomllib.loads(text)["name"] == "b"
    assert store.load("b").engine.tp == 4
    assert store.rename("b", "b") == new
    assert new.exists()
    with pytest.raises(ConsoleError, match="simulated is built-in - copy it"):
        store.rename("simulated", "c")


# --------------------------------------------------------------------------------------------- properties

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)
POSITIVE = st.floats(0.001, 1e9)
VARIABLE = st.text(st.characters(codec="ascii", categories=["Lu", "Nd"]), min_size=1, max_size=6).filter(
    lambda name: not secrets.is_secret(name, "value")
)
SIMPLE = st.one_of(st.booleans(), st.integers(-(2**62), 2**62), st.floats(allow_nan=False, allow_infinity=False), TEXT)
MEASURED = st.dictionaries(
    TEXT.filter(bool),
    st.one_of(SIMPLE, st.lists(SIMPLE, max_size=3), st.dictionaries(TEXT, SIMPLE, min_size=1, max_size=3)),
    max_size=3,
)
PLAIN = TEXT.filter(lambda text: "\0" not in text)
PROFILES = st.builds(
    Profile,
    name=st.just("p"),
    description=TEXT,
    engine=st.builds(
        EngineSection,
        model=TEXT,
        tp=st.integers(1, 64),
        port=st.integers(1, 65535),
        args=st.lists(TEXT, max_size=4).map(tuple),
        env=st.builds(
            Environment,
            set=st.dictionaries(VARIABLE, PLAIN, max_size=3),
            unset=st.lists(VARIABLE, max_size=2).map(tuple),
        ),
        api_key_file=TEXT,
        device_timer=st.booleans(),
        stop_timeout_s=POSITIVE,
    ),
    speculation=st.builds(
        Speculation,
        algorithm=st.sampled_from(["", "EAGLE3"]),
        drafter=TEXT,
        steps=st.none() | st.integers(0, 64),
        candidate_steps=st.lists(st.integers(0, 64), max_size=4).map(tuple),
    ),
    targets=st.builds(
        TargetsSection,
        baseline=st.builds(BaselineSection, tok_s=st.none() | POSITIVE, note=TEXT),
        goals_tok_s=st.lists(POSITIVE, max_size=3).map(tuple),
    ),
    guard=st.builds(Guard, min_accept_len=st.none() | st.floats(1, 64)),
    measured=MEASURED,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(PROFILES)
def test_written_and_read_back_it_is_the_same(profile):
    text = edit.apply("", keys.flat(profile), "p.toml")
    assert read.parse(text, "p.toml", "p") == profile


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(PROFILES, st.sampled_from([*sorted(BUILTINS)]))
def test_any_profile_can_be_written_into_any_builtin_text(profile, name):
    text = store.path(name).read_text()
    wanted = edit.changes(read.parse(text, name), profile)
    found = edit.apply(text, wanted, name)
    assert read.parse(found, name) == profile
    lines = [line for line in text.splitlines() if line.startswith("# ")]
    assert [line for line in found.splitlines() if line in lines][: len(lines)] == lines


def test_differences_name_keys_and_defaults():
    a, b = store.load("tiny-eagle3"), store.load("tiny-eagle3-cpu")
    found = {key: (one, other) for key, one, other in store.differences(a, b)}
    assert found["engine.device_timer"] == (None, False)
    assert found["engine.env.set.SGLANG_USE_CPU_ENGINE"] == (None, "1")
    assert "name" not in found
    assert list(store.differences(a, a)) == []


def test_the_room_imports_neither_the_app_nor_the_agent():
    script = (
        "import sys, profiles.store, profiles.assign; profiles.store.listing();"
        "print([m for m in sys.modules if m.split('.')[0] in ('textual', 'aiohttp') or m.startswith(('console.agent', 'console.engine'))])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_builtins_are_in_the_wheel():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert "profiles" in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
