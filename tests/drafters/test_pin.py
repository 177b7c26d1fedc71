"""The revision goes into the profile on request, its comments stay, and nothing else changes."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from console.commands.pull import command
from console.errors import ConsoleError
from profiles import store
from profiles.pin import pin, pinned
from profiles.schema import Profile, Speculation
from tests.drafters.build import config
from tests.drafters.hub_server import Repo
from tests.drafters.test_hub import NAME, hub  # noqa: F401 - a fixture

TEXT = f"""# the box in the corner
name = "mine"

[engine]
model = "org/target"

[speculation]
algorithm = "EAGLE3"
drafter = "{NAME}" # the good one
drafters = ["{NAME}", "org/other", "/local/folder"]
"""
REVISION = "ab" * 20


@pytest.fixture(autouse=True)
def mine(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLANG_CONSOLE_HOME", str(tmp_path / "home"))
    path = store.folder() / "mine.toml"
    path.parent.mkdir(parents=True)
    path.write_text(TEXT)
    return path


def test_its_own_drafter(mine):
    assert pin("mine", NAME, REVISION) == mine
    text = mine.read_text()
    assert "# the box in the corner" in text
    assert "# the good one" in text
    profile = store.load("mine")
    assert (profile.speculation.drafter, profile.speculation.revision) == (NAME, REVISION)
    assert profile.speculation.drafters == (NAME, "org/other", "/local/folder")
    assert pin("mine", NAME, REVISION) is None


def test_one_to_swap_to(mine):
    pin("mine", "org/other", REVISION)
    pin("mine", "org/other", "cd" * 20)
    spec = store.load("mine").speculation
    assert (spec.revision, spec.drafters[1]) == ("", "org/other@" + "cd" * 20)


def test_one_it_does_not_name(mine):
    with pytest.raises(ConsoleError, match="does not name org/stranger"):
        pin("mine", "org/stranger", REVISION)
    with pytest.raises(ConsoleError, match="does not name"):
        pinned(Profile(name="p", speculation=Speculation(drafter="/local/x")), "local/x", REVISION)
    assert mine.read_text() == TEXT


def test_a_profile_in_a_file(tmp_path, mine):
    path = tmp_path / "elsewhere.toml"
    path.write_text(TEXT.replace('"mine"', '"elsewhere"'))
    assert pin(str(path), NAME, REVISION) == path
    assert REVISION in path.read_text()


def test_pull_pins_on_request_only(hub, mine):  # noqa: F811
    hub.repos[NAME] = Repo({"config.json": json.dumps(config()).encode()})
    assert CliRunner().invoke(command, [NAME], catch_exceptions=False).exit_code == 0
    assert mine.read_text() == TEXT
    result = CliRunner().invoke(command, [NAME, "--pin", "mine", "--json"], catch_exceptions=False)
    assert json.loads(result.stdout)["pinned"] == str(mine)
    assert store.load("mine").speculation.revision == hub.repos[NAME].sha


@pytest.mark.parametrize(("profile", "words"), [("none", "no profile none"), ("tiny-eagle3", "does not name")])
def test_what_would_go_wrong_is_said_before_the_download(hub, mine, profile, words):  # noqa: F811
    hub.repos[NAME] = Repo({"config.json": b"{}"})
    with pytest.raises(ConsoleError, match=words):
        CliRunner().invoke(command, [NAME, "--pin", profile], catch_exceptions=False)
    assert not hub.requests
