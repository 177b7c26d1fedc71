"""A rig on the real SGLang on the CPU, driven by the command line only."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from console.rig import EngineState, Snapshot

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
START_S = {1: 180, 2: 240, 8: 480}
"""A start takes 25, 30 and 90 s on two idle cores; a busy machine gets time."""


class Places:
    """Where the engine's Python and the checkpoints are; run.sh and demo.sh name them."""

    def __init__(self) -> None:
        self.venv = Path(os.environ.get("ENGINE_VENV", ROOT / ".venv-engine"))
        self.checkpoints = Path(os.environ.get("ENGINE_CHECKPOINTS", ROOT / ".cache/engine-checkpoints"))

    @property
    def missing(self) -> str:
        """Why nothing can be run; empty when everything is there."""
        for path in (self.venv / "bin/python", self.checkpoints / "info.json"):
            if not path.exists():
                return f"{path} is not there: run tests/real/run.sh, which makes it"
        return ""

    def accept_len(self, drafter: str, depth: int) -> float:
        """What the constructed drafter reaches at a depth."""
        info: dict[str, Any] = json.loads((self.checkpoints / "info.json").read_text())
        return float(info[drafter]["accept_len"][str(depth)])


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def cores_of_ranks(tp: int) -> str:
    """SGLang's binding of CPU ranks to cores: they share what there is."""
    return "|".join(str(rank % (os.cpu_count() or 1)) for rank in range(tp))


def profile(places: Places, *, tp: int, port: int) -> str:
    """The profile of the CPU engine as TOML."""
    variables = {"SGLANG_USE_CPU_ENGINE": "1", "TORCH_COMPILE_DISABLE": "1"}
    if tp > 1:
        variables["SGLANG_CPU_OMP_THREADS_BIND"] = cores_of_ranks(tp)
    arguments = (
        *("--device", "cpu", "--attention-backend", "torch_native", "--sampling-backend", "pytorch"),
        *("--max-total-tokens", "16384", "--context-length", "4096", "--max-running-requests", "8"),
        *("--decode-log-interval", "10"),
    )
    drafters = [str(places.checkpoints / name) for name in ("drafter-a", "drafter-b")]
    # JSON's strings, lists and numbers are TOML's
    lines = [
        'name = "cpu-engine"',
        'description = "SGLang on the CPU: real scheduler, real EAGLE-3, constructed checkpoints"',
        "[engine]",
        f"python = {json.dumps(str(places.venv / 'bin/python'))}",
        f"model = {json.dumps(str(places.checkpoints / 'target'))}",
        f"tp = {tp}",
        f"port = {port}",
        f"args = {json.dumps(arguments)}",
        f"pythonpath = {json.dumps([str(HERE / 'engine_shim')])}",
        "device_timer = false",
        "stop_timeout_s = 40",
        "[engine.env.set]",
        *(f"{name} = {json.dumps(value)}" for name, value in variables.items()),
        "[speculation]",
        'algorithm = "EAGLE3"',
        f"drafter = {json.dumps(drafters[0])}",
        "steps = 3",
        "topk = 1",
        "draft_tokens = 4",
        "candidate_steps = [0, 1, 2, 3, 5]",
        f"drafters = {json.dumps(drafters)}",
        "[targets]",
        "goals_tok_s = [60.0]",
        "[guard]",
        "window_s = 5.0",
    ]
    return "\n".join(lines) + "\n"


class RealRig:
    """One rig with a home of its own.

    Args:
        home: folder for state and profile.
        places: engine and checkpoints.
        tp: tensor-parallel ranks.
    """

    def __init__(self, home: Path, places: Places, tp: int = 1) -> None:
        self.places = places
        self.tp = tp
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.env = {**os.environ, "SGLANG_CONSOLE_HOME": str(home)}
        home.mkdir(parents=True, exist_ok=True)
        self.profile = home / "cpu-engine.toml"
        self.profile.write_text(profile(places, tp=tp, port=self.port))

    def console(self, *words: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
        """Run one console command on this rig."""
        argv = [sys.executable, "-m", "console", "--rig", "real", *words]
        return subprocess.run(argv, env=self.env, capture_output=True, text=True, timeout=timeout_s, check=False)

    def must(self, *words: str, timeout_s: float = 300) -> str:
        """Run a command that has to succeed; its output."""
        done = self.console(*words, timeout_s=timeout_s)
        assert done.returncode == 0, f"console {' '.join(words)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def status(self) -> Snapshot:
        """The newest snapshot; the exit code says how the engine is (3 nothing runs, 4 it is dead)."""
        done = self.console("status", "--json")
        assert done.returncode in {0, 3, 4}, done.stderr
        assert done.stdout, done.stderr
        return msgspec.json.decode(done.stdout, type=Snapshot)

    def wait(self, true: Callable[[Snapshot], bool], seconds: float, what: str) -> Snapshot:
        """Poll until a snapshot satisfies ``true``."""
        deadline = time.monotonic() + seconds
        while True:
            snapshot = self.status()
            if true(snapshot):
                return snapshot
            engine = snapshot.engine
            assert time.monotonic() < deadline, (
                f"{what} did not come within {seconds} s: {engine}\n{self.log()[-3000:]}"
            )
            time.sleep(0.5)

    def start(self) -> Snapshot:
        """Launch and wait until it serves."""
        self.must("run", str(self.profile), timeout_s=START_S[self.tp])
        return self.wait(lambda s: s.engine.state is EngineState.READY, START_S[self.tp], "ready")

    def log(self) -> str:
        """The engine's log."""
        path = self.status().engine.log_path
        return Path(path).read_text(errors="replace") if path else ""

    def end(self) -> None:
        """Leave nothing behind, whatever the test did."""
        self.console("stop", timeout_s=120)
        self.console("agent", "stop", timeout_s=30)
