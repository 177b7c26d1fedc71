"""The operator's pages say what the code does: their example is run, their keys are the schema's."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from console.cli import main
from profiles import keys, store

DOCS = Path(__file__).parents[1] / "docs"


def test_the_example_prints_what_the_page_shows(capsys):
    page = (DOCS / "economics.md").read_text()
    block = textwrap.dedent(
        re.search(r"((?:^    .*\n|^\n)+)", page[page.index("    $ console targets") :], re.MULTILINE)[1]
    )
    command, _, shown = block.partition("\n")
    with pytest.raises(SystemExit) as end:
        main(command.removeprefix("$ console ").split())
    assert end.value.code == 4
    assert capsys.readouterr().out.startswith(shown.rstrip() + "\n")


def test_every_key_of_a_profile_is_explained():
    page = (DOCS / "profiles.md").read_text()
    explained = set(re.findall(r"`([a-z_.]+)`", page))
    for path in keys.known():
        name = keys.shown(path)
        if path[:2] == ("targets", "baseline"):
            assert path[-1] in explained | {"baseline"}
        elif not any(other[: len(path)] == path and other != path for other in keys.known()):
            assert name in explained, name


def test_every_builtin_is_explained(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLANG_CONSOLE_HOME", str(tmp_path))
    page = (DOCS / "profiles.md").read_text()
    assert {entry.name for entry in store.listing().entries} <= set(re.findall(r"`([a-z0-9.-]+)`", page))
