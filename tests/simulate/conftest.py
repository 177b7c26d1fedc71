"""A simulated engine as a process, and what the real one's metrics look like."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture(scope="session")
def fixture_metrics() -> dict[str, list[frozenset[str]]]:
    """Metric name -> the label sets the real engine has for it."""
    found: dict[str, list[frozenset[str]]] = {}
    for path in FIXTURES.glob("*/main/**/*.prom"):
        for name, labels in re.findall(r"^(sglang:\w+)\{(.*)\}", path.read_text(), re.MULTILINE):
            names = frozenset(re.findall(r'(\w+)="', labels))
            if names not in found.setdefault(name, []):
                found[name].append(names)
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class SimulatedEngine:
    """One running simulated engine."""

    def __init__(self, folder: Path, flags: list[str], env: dict[str, str], port: int) -> None:
        self.folder = folder
        self.port = port
        self.log_path = folder / "engine.log"
        environment = {**os.environ, "SGLANG_SIM_SPEED": "20", "SGLANG_CONSOLE_PROBE_DIR": str(folder), **env}
        argv = [sys.executable, "-m", "console.simulate", "--tp", "8", "--port", str(port), *flags]
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(argv, stderr=log, env=environment, start_new_session=True)

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def wait_for(self, text: str, seconds: float = 15) -> None:
        deadline = time.monotonic() + seconds
        while text not in self.log:
            if time.monotonic() > deadline or (self.process.poll() is not None and text not in self.log):
                raise AssertionError(f"{text!r} did not come; the log ends with:\n{self.log[-1500:]}")
            time.sleep(0.02)

    def ready(self) -> SimulatedEngine:
        self.wait_for("fired up and ready to roll")
        return self

    def get(
        self, path: str, body: Any = None, timeout: float = 5, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers or {})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                status, text = response.status, response.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text

    def children(self) -> dict[int, str]:
        titles = {}
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == self.process.pid:
                    titles[int(entry.name)] = (entry / "cmdline").read_bytes().split(b"\0")[0].decode()
        return titles

    def command(self, number: int, payload: dict[str, Any]) -> tuple[bool, list[dict[str, Any]]]:
        (self.folder / f"cmd-{number}.json").write_text(json.dumps(payload))
        _, answer = self.get("/set_internal_state", {"server_args": {"spec_console_cmd": number}})
        acks = sorted(self.folder.glob(f"ack-{number}-*.json"))
        return answer == [True], [json.loads(path.read_text()) for path in acks]

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)


@pytest.fixture(scope="session")
def serving(tmp_path_factory, eagle):
    """One engine for every test that only looks, or puts back what it changes."""
    engine = SimulatedEngine(tmp_path_factory.mktemp("sim"), [*eagle, "--sim-clients", "1"], {}, free_port())
    yield engine.ready()
    engine.end()


@pytest.fixture
def start(tmp_path_factory):
    """Start simulated engines; each ends with the test."""
    running: list[SimulatedEngine] = []

    def launch(*flags: str, env: dict[str, str] | None = None, port: int | None = None) -> SimulatedEngine:
        folder = tmp_path_factory.mktemp("sim")
        engine = SimulatedEngine(folder, list(flags), env or {}, port or free_port())
        running.append(engine)
        return engine

    yield launch
    for engine in running:
        engine.end()


@pytest.fixture(scope="session")
def eagle(tmp_path_factory) -> list[str]:
    """Flags of a speculative launch with prebuilt depths 0, 1, 2, 3, 5."""
    tiers = tmp_path_factory.mktemp("tiers") / "tiers.json"
    tiers.write_text('{"1": {"candidate_steps": [0, 1, 2, 3, 5], "warmup_batches": 1000000000}}')
    return [
        *[
            "--speculative-algorithm",
            "EAGLE3",
            "--speculative-draft-model-path",
            "sim/own-37k",
            "--speculative-num-steps",
            "2",
        ],
        *["--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "3", "--speculative-adaptive"],
        *("--speculative-adaptive-config", str(tiers), "--enable-metrics"),
    ]
