"""Proved at run time: reading commands never import Textual, panels know no agent and no engine, the first frame needs no network."""

from __future__ import annotations

import subprocess
import sys

import pytest

CALL = """
import sys
from console import cli
try:
    cli.main({argv!r})
except SystemExit:
    pass
print("modules:" + ",".join(sorted(sys.modules)))
"""


def modules_after(code: str) -> set[str]:
    """Names in ``sys.modules`` of a fresh interpreter after some code."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    line = next(line for line in done.stdout.splitlines() if line.startswith("modules:"))
    return set(line.removeprefix("modules:").split(","))


def under(found: set[str], *roots: str) -> set[str]:
    """The modules that belong to these packages."""
    return {name for name in found if any(name == root or name.startswith(f"{root}.") for root in roots)}


@pytest.mark.parametrize(
    "argv",
    [
        ["--help"],
        ["status"],
        ["targets", "--baseline", "82", "--cycle-ms", "30", "--depth", "2", "--json"],
        ["explain", __file__],
        ["profiles", "list"],
        ["doctor"],
        ["check", "--help"],
        ["agent", "status"],
    ],
    ids=lambda argv: argv[0],
)
def test_reading_commands_never_import_textual(
    argv: list[str], tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SGLANG_CONSOLE_HOME", str(tmp_path))
    found = modules_after(CALL.format(argv=argv))
    assert "console.cli" in found
    assert not under(found, "textual", "panels", "console.app", "torch", "sglang")


@pytest.mark.parametrize("argv", [["demo"], ["attach", "http://127.0.0.1:1"], []], ids=["demo", "attach", "deck"])
def test_without_a_terminal_the_answer_comes_before_textual(argv: list[str]) -> None:
    found = modules_after(CALL.format(argv=argv))
    assert not under(found, "textual", "panels", "console.app", "console.agent")


def test_panels_know_neither_agent_nor_engine() -> None:
    code = """
import importlib, pkgutil, sys, panels
for module in pkgutil.iter_modules(panels.__path__):
    importlib.import_module("panels." + module.name)
print("modules:" + ",".join(sorted(sys.modules)))
"""
    found = modules_after(code)
    assert "panels.deck" in found
    ours = under(found, "console", "profiles")
    assert ours == {"console", "console.rig"}


def test_the_first_frame_needs_no_network_no_hub_no_profiles() -> None:
    found = modules_after("import sys, console.app\nprint('modules:' + ','.join(sorted(sys.modules)))")
    assert "console.screens.deck" in found
    heavy = under(
        found,
        "aiohttp",
        "http",
        "huggingface_hub",
        "httpx",
        "psutil",
        "pynvml",
        "prometheus_client",
        "zmq",
        "sqlite3",
        "zstandard",
        "tomlkit",
        "console.agent",
        "console.engine",
        "console.drafters",
        "console.simulate",
        "profiles",
        "textual.widgets._data_table",
    )
    assert heavy == set()
