"""``console check`` as the operator types it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from console.cli import RigContext
from console.commands.check import command
from console.errors import ConsoleError, ExitCode
from tests.drafters import build
from tests.drafters.build import config, folder, target


def run(*arguments: str):
    return CliRunner().invoke(command, list(arguments), obj=RigContext(None))


def test_json_contract(tmp_path):
    result = run(str(folder(tmp_path / "d")), "--target", str(target(tmp_path / "t")), "--json")
    answer = json.loads(result.stdout)
    assert result.exit_code == ExitCode.OK
    assert answer["verdict"] == "restart"
    assert answer["bytes_expected"] == build.size_of("BF16", [1]) * 0 + answer["drafter"]["bytes"]
    assert {"id", "ok", "severity", "message", "drafter", "reference"} == set(answer["checks"][0])


def test_incompatible_ends_with_4_and_names_both_values(tmp_path):
    drafter = folder(tmp_path / "d", config(hidden_size=128, num_attention_heads=8))
    result = run(str(drafter), "--target", str(target(tmp_path / "t")))
    assert result.exit_code == ExitCode.NO
    assert result.stdout.startswith("INCOMPATIBLE: target hidden size 128, the target has 64 (C3)")


def test_names_cannot_drive_the_terminal(tmp_path):
    cfg = config(architectures=["Evil\x1b[2JForCausalLM"])
    result = run(
        str(folder(tmp_path / "d", cfg, tensors=build.tensors_of(config()))), "--target", str(target(tmp_path / "t"))
    )
    assert "\x1b" not in result.stdout
    assert "\\x1b[2J" in result.stdout


@pytest.mark.parametrize("name", ["/no/such/folder", "./nope", "one/two/three", "plain", "org/name@", ""])
def test_names_that_are_nothing(name):
    with pytest.raises(ConsoleError) as caught:
        CliRunner().invoke(command, [name, "--target", "/also/none"], obj=RigContext(None), catch_exceptions=False)
    assert caught.value.code is ExitCode.USAGE
    assert "\n" not in caught.value.line


def test_parent_folder_says_which_one_is_meant(tmp_path):
    folder(tmp_path / "out" / "epoch_1")
    with pytest.raises(ConsoleError, match="epoch_1"):
        CliRunner().invoke(
            command, [str(tmp_path / "out"), "--target", str(tmp_path)], obj=RigContext(None), catch_exceptions=False
        )
