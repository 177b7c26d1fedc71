"""`console`, `console demo`, `console attach`: what they ask of the agent, and one real demo from start to end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console import rig
from console.commands import attach, demo
from console.errors import ConsoleError, ExitCode
from console.paths import RigPaths
from tests.app.fake import idle, serving, with_engine
from tests.bench.terminal import Terminal

CONSOLE = [sys.executable, "-m", "console"]


class Client:
    """An agent's client that answers from a list of snapshots, the last one for ever."""

    def __init__(self, *snapshots: rig.Snapshot) -> None:
        self.snapshots = list(snapshots)
        self.begun: list[tuple[str, dict[str, object]]] = []

    def snapshot(self) -> rig.Snapshot:
        return self.snapshots.pop(0) if len(self.snapshots) > 1 else self.snapshots[0]

    def operate(self, kind: str, args: dict[str, object]) -> None:
        self.begun.append((kind, args))


def test_the_demo_launches_only_when_nothing_runs() -> None:
    for state in rig.EngineState:
        client = Client(with_engine(idle(), state=state))
        demo.begin(client)  # type: ignore[arg-type]
        expected = state in {
            rig.EngineState.NONE,
            rig.EngineState.STOPPED,
            rig.EngineState.DEAD,
            rig.EngineState.UNREACHABLE,
        }
        assert client.begun == ([("launch", {"profile": "simulated"})] if expected else [])


def test_the_demo_says_why_its_engine_died() -> None:
    failure = rig.Failure(kind="crash", message="no memory")
    client = Client(with_engine(idle(), state=rig.EngineState.DEAD, failure=failure))
    with pytest.raises(ConsoleError, match="no memory"):
        demo.wait(client, 1.0)  # type: ignore[arg-type]
    client = Client(with_engine(idle(), state=rig.EngineState.STARTING, note="loading"))
    with pytest.raises(ConsoleError, match="loading"):
        demo.wait(client, 0.0)  # type: ignore[arg-type]
    demo.wait(Client(serving()), 0.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://127.0.0.1:30000", "http://127.0.0.1:30000"),
        ("http://127.0.0.1:30000/", "http://127.0.0.1:30000"),
        ("box7:8000", "http://box7:8000"),
        ("localhost", "http://localhost:30000"),
        ("https://llm.example", "https://llm.example:443"),
        ("[::1]:30000", "http://[::1]:30000"),
        ("HTTP://Box7:1", "http://box7:1"),
    ],
)
def test_addresses(given: str, expected: str) -> None:
    assert attach.address(given) == expected
    assert RigPaths(attach.rig_of(expected)).name


@pytest.mark.parametrize(
    "given", ["", "ftp://x", "http://x/v1", "http://x?y=1", "http://u:secret@x:1", "http://x:99999", "http://x:no"]
)
def test_what_is_no_address(given: str) -> None:
    with pytest.raises(ConsoleError) as raised:
        attach.address(given)
    assert raised.value.code is ExitCode.USAGE
    assert "secret" not in raised.value.line


def test_a_rig_is_named_after_host_and_port() -> None:
    assert attach.rig_of("http://127.0.0.1:30000") == "127.0.0.1-30000"
    assert attach.rig_of("http://[::1]:30000") == "1-30000"
    long = attach.rig_of(f"http://{'a' * 80}.example:30000")
    assert RigPaths(long).name == long


def test_attaching_twice_to_the_same_server_asks_once() -> None:
    watched = with_engine(serving(), attached=True, url="http://box:1/")
    client = Client(watched)
    attach.attach(client, "http://box:1")  # type: ignore[arg-type]
    assert client.begun == []
    attach.attach(client, "http://other:1")  # type: ignore[arg-type]
    assert client.begun == [("attach", {"url": "http://other:1"})]


def test_a_server_that_does_not_answer_ends_with_exit_code_3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attach, "_FIRST_ANSWER_S", 0.3)
    silent = with_engine(idle(), attached=True, state=rig.EngineState.UNREACHABLE, note="connection refused")
    with pytest.raises(ConsoleError, match="connection refused") as raised:
        attach.answered(Client(silent), "http://box:1")  # type: ignore[arg-type]
    assert raised.value.code is ExitCode.UNREACHABLE


def test_the_demo_is_its_own_rig() -> None:
    done = subprocess.run([*CONSOLE, "--rig", "other", "demo"], capture_output=True, text=True, timeout=30)
    assert done.returncode == ExitCode.USAGE
    assert "--rig other names another" in done.stderr
    assert done.stdout == ""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[dict[str, str]]:
    env = {**os.environ, "SGLANG_CONSOLE_HOME": str(tmp_path), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    env.pop("NO_COLOR", None)
    yield env
    subprocess.run([*CONSOLE, "demo", "--stop"], env=env, capture_output=True, timeout=60, check=False)


def status(env: dict[str, str]) -> dict[str, object]:
    done = subprocess.run(
        [*CONSOLE, "--rig", "demo", "status", "--json"], env=env, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_a_real_demo_survives_q_and_the_loss_of_its_terminal(home: dict[str, str]) -> None:
    with Terminal([*CONSOLE, "demo"], home) as terminal:
        assert terminal.seconds_until(re.compile("CONNECTING"), 20) is not None
        assert terminal.seconds_until(re.compile(r"READY.*SIMULATED", re.DOTALL), 40) is not None, terminal.text()[
            -2000:
        ]
        terminal.send(b"q")
        os.waitpid(terminal.pid, 0)
    first = status(home)
    with Terminal([*CONSOLE, "demo"], home) as terminal:
        assert terminal.seconds_until(re.compile("READY"), 20) is not None
    second = status(home)
    for snapshot in (first, second):
        assert snapshot["simulated"] is True
    assert first["agent"]["pid"] == second["agent"]["pid"]  # type: ignore[index]
    assert first["engine"]["pid"] == second["engine"]["pid"]  # type: ignore[index]
    done = subprocess.run([*CONSOLE, "demo", "--stop"], env=home, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")
    done = subprocess.run([*CONSOLE, "--rig", "demo", "status"], env=home, capture_output=True, text=True, timeout=30)
    assert done.returncode == ExitCode.UNREACHABLE
    done = subprocess.run([*CONSOLE, "demo", "--stop"], env=home, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "does not run" in done.stderr
