"""A broken file is one line that names the file, the key and what is wrong."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from console.errors import ConsoleError, ExitCode
from profiles import read, store
from profiles.schema import Profile

BROKEN = {
    "unknown key with a neighbour": ("[engine]\ntpp = 8", "engine.tpp: unknown key; did you mean engine.tp?"),
    "unknown key of another section": ("steps = 3", "steps: unknown key; did you mean speculation.steps?"),
    "unknown section": ("[speculaton]\nsteps = 1", "speculaton: unknown key; did you mean speculation?"),
    "unknown key like nothing": ("zzz = 1", "zzz: unknown key"),
    "key that would act on a terminal": ('"\\u001b[31m" = 1', '"\\u001b[31m": unknown key'),
    "text for a number": ('[engine]\ntp = "8"', "engine.tp: expected a whole number, got text"),
    "number for text": ("[engine]\nmodel = 8", "engine.model: expected text, got a whole number"),
    "true for a number": ("[engine]\ntp = true", "engine.tp: expected a whole number, got true or false"),
    "fraction for a number": ("[speculation]\nsteps = 2.5", "speculation.steps: expected a whole number, got a number"),
    "table for text": ("[engine.model]\na = 1", "engine.model.a: unknown key"),
    "text for a table": ('engine = "x"', "engine: expected a table, got text"),
    "text for a list": ('[engine]\nargs = "--x"', "engine.args: expected a list, got text"),
    "number in a list of text": ('[engine]\nargs = ["--x", 3]', "engine.args[1]: expected text, got a whole number"),
    "date for text": (
        "[targets.baseline]\nmeasured = 2026-12-01",
        "targets.baseline.measured: expected text, got a date",
    ),
    "below the bound": ("[engine]\nport = 0", "engine.port: must be >= 1"),
    "above the bound": ("[speculation]\ncandidate_steps = [1, 65]", "speculation.candidate_steps[1]: must be <= 64"),
    "share above one": ("[guard]\nmin_share_of_before = 1.5", "guard.min_share_of_before: must be <= 1.0"),
    "zero goal": ("[targets]\ngoals_tok_s = [0]", "targets.goals_tok_s[0]: must be > 0.0"),
    "nan": ("[guard]\nmin_accept_len = nan", "guard.min_accept_len: must be a finite number, not nan"),
    "inf in a list": ("[targets]\ngoals_tok_s = [150, -inf]", "targets.goals_tok_s: must be a finite number, not -inf"),
    "nan in what was measured": ("[measured.run]\ncycle_ms = nan", "measured.run.cycle_ms: must be a finite number"),
    "huge integer": ("[engine]\ntp = 1" + "0" * 30, "engine.tp: is too large a number"),
    "integer for a variable": (
        "[engine.env.set]\nA = 1",
        'engine.env.set.A: expected text, got a whole number; write "1"',
    ),
    "boolean for a variable": (
        "[engine.env.set]\nA = true",
        'engine.env.set.A: expected text, got true or false; write "true"',
    ),
    "list for a variable": ("[engine.env.set]\nA = []", "engine.env.set.A: expected text, got a list"),
    "no variable": ('[engine.env.set]\n"A=B" = "1"', "cannot be an environment variable"),
    "bad name": ('name = "a b"', "name: must be 1 to 64 letters"),
    "syntax": ("[engine]\ntp = \nport = 1", "line 2, column 6: Invalid value"),
    "syntax at the end": ("[engine", "at the end: Expected ']'"),
    "twice": ("[engine]\ntp = 1\ntp = 2", "Cannot overwrite a value"),
    "control character": ('name = "\x1b"', "line 1, column 9: Illegal character '\\x1b'"),
    "empty": ("", "is empty - start from a built-in"),
    "only a comment": ("# nothing\n", "is empty"),
    "byte order mark": (b"\xef\xbb\xbf[engine]\n", "begins with a byte order mark"),
    "utf-16": ("name = 'a'".encode("utf-16"), "is UTF-16"),
    "latin-1": ("a = 1\nb = 'gr\u00fcn'".encode("latin-1"), "line 2: is not UTF-8"),
    "binary": (b"\x00\x80\x81", "line 1: is not UTF-8"),
    "nested too deep": ("a = " + "[" * 20_000, "is nested too deep"),
    "digits without end": ("a = " + "1" * 5000, "b.toml: "),
    "too large": ("#" * (read.SIZE_LIMIT_BYTES + 1), "no profile is larger"),
}


@pytest.mark.parametrize(("content", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_files(put, content, message):
    path = put("b.toml", content)
    with pytest.raises(ConsoleError) as caught:
        store.load("b")
    line = caught.value.line
    assert line.startswith(f"{path}: ")
    assert message in line
    assert "\n" not in line
    assert line.isprintable()
    assert caught.value.code is ExitCode.USAGE


def test_folder_fifo_missing_and_loop(put, tmp_path):
    store.folder().mkdir(parents=True)
    (store.folder() / "f.toml").mkdir()
    os.mkfifo(store.folder() / "p.toml")
    (store.folder() / "l.toml").symlink_to("l.toml")
    (store.folder() / "m.toml").symlink_to(tmp_path / "nowhere")
    for name, message in {
        "f": "is a folder",
        "p": "no ordinary file",
        "l": "cannot be read",
        "m": "No such file",
    }.items():
        with pytest.raises(ConsoleError, match=message):
            store.load(name)
    assert {problem.path.stem for problem in store.listing().problems} == {"f", "p", "l", "m"}
    with pytest.raises(ConsoleError, match=r"not\.toml: cannot be read: No such file"):
        store.load(tmp_path / "not.toml")
    with pytest.raises(ConsoleError):
        store.load("/a\0b.toml")


def test_no_permission(put, monkeypatch):
    put("a.toml", "[engine]\ntp = 8\n")

    def refused(_path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.read_bytes", refused)
    with pytest.raises(ConsoleError, match=r"a\.toml: cannot be read: Permission denied"):
        store.load("a")


def test_name_comes_from_the_file_and_must_agree(put):
    put("mine.toml", "[engine]\ntp = 8\n")
    assert store.load("mine") == Profile(name="mine", engine=store.load("mine").engine)
    other = put("copy.toml", 'name = "mine"\n')
    with pytest.raises(ConsoleError, match=r"name: 'mine' is not the file's name - write 'copy', or rename the file"):
        store.load("copy")
    assert store.load(other).name == "mine"


SECRETS = {
    "token": ('[engine.env.set]\nHF_TOKEN = "abcdef"', "engine.env.set.HF_TOKEN"),
    "key": ('[engine.env.set]\nEXA_API_KEY = "abcdef"', "engine.env.set.EXA_API_KEY"),
    "short key": ('[engine.env.set]\nWANDB_KEY = "abcdef"', "engine.env.set.WANDB_KEY"),
    "password": ('[engine.env.set]\nDB_PASSWORD_PROD = "abcdef"', "engine.env.set.DB_PASSWORD_PROD"),
    "lower case": ('[engine.env.set]\nmy_secret = "abcdef"', "engine.env.set.my_secret"),
    "camel case": ('[engine.env.set]\nhubToken = "abcdef"', "engine.env.set.hubToken"),
    "aws": ('[engine.env.set]\nAWS_ACCESS_KEY_ID = "abcdef"', "engine.env.set.AWS_ACCESS_KEY_ID"),
    "inline": ('engine = { env = { set = { HF_TOKEN = "abcdef" } } }', "engine.env.set.HF_TOKEN"),
    "argument": ('[engine]\nargs = ["--api-key", "abcdef"]', "engine.args.--api-key"),
    "argument with =": ('[engine]\nargs = ["--admin-api-key=abcdef"]', "engine.args.--admin-api-key"),
    "by its look": ('[engine.env.set]\nX = "hf_abcdefabcdefabcdef"', "engine.env.set.X"),
    "anywhere": ('description = "use hf_abcdefabcdefabcdef"', "description"),
    "in a URL": ('[engine.env.set]\nHTTPS_PROXY = "http://me:abcdef@proxy:3128"', "engine.env.set.HTTPS_PROXY"),
}


@pytest.mark.parametrize(("text", "key"), SECRETS.values(), ids=SECRETS)
def test_a_secret_is_refused_by_name_and_never_shown(put, text, key):
    put("b.toml", text)
    with pytest.raises(ConsoleError) as caught:
        store.load("b")
    assert f"{key}: looks like a secret, and a profile holds none" in caught.value.line
    assert "engine.env.inherit" in caught.value.line
    assert "abcdef" not in caught.value.line


@pytest.mark.parametrize(
    "text",
    [
        'TOKENIZERS_PARALLELISM = "false"',
        'SGLANG_LOG_DECODE_GRAPH_KEY = "1"',
        'SGLANG_SIMULATE_ACC_TOKEN_MODE = "fixed"',
        'SGLANG_MIN_NEW_TOKEN_RATIO_FACTOR = "0.14"',
        'HF_TOKEN_PATH = "/run/secrets/hf"',
        'SSL_KEY = "/etc/ssl/server.pem"',
        'HF_TOKEN = ""',
        'PWD = "/srv"',
        'MONKEY = "banana"',
        'HTTPS_PROXY = "http://proxy:3128"',
    ],
)
def test_what_is_no_secret(put, text):
    put("b.toml", f"[engine.env.set]\n{text}\n")
    assert store.load("b").engine.env.set


def test_secret_switches_of_the_server_are_no_secret(put):
    put(
        "b.toml",
        '[engine]\nargs = ["--speculative-token-map", "/m", "--ssl-keyfile", "/k", "--api-key", "--trust-remote-code"]',
    )
    assert len(store.load("b").engine.args) == 6


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_whatever_a_file_holds_it_is_a_profile_or_one_line(raw):
    try:
        profile = read.parse(read.text_of(raw, "x.toml"), "x.toml", "x")
    except ConsoleError as error:
        assert error.line.startswith("x.toml: ")
        assert "\n" not in error.line
    else:
        assert isinstance(profile, Profile)


VALUE = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.none()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEY = st.sampled_from([*Profile.__struct_fields__, "env", "set", "tp", "model", "baseline", "args", "x", "\x1b"])


@given(st.dictionaries(KEY, st.one_of(VALUE, st.dictionaries(KEY, VALUE, max_size=4)), max_size=5))
def test_whatever_tables_hold_they_are_a_profile_or_one_line(data):
    data.setdefault("name", "x")
    try:
        read.validate(data, "x.toml")
    except ConsoleError as error:
        assert error.line.startswith("x.toml: ")
        assert "\n" not in error.line
