"""The real SGLang on the CPU with the probe, started directly: no agent, no profile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

from tests.real.rig import START_S, Places, cores_of_ranks, free_port

HERE = Path(__file__).parent
PROBE = HERE.parents[1] / "console/probe"
PYTHON_VARIABLE = "CONSOLE_ENGINE_PYTHON"


def engine_python(places: Places) -> Path:
    """The interpreter that has the engine's SGLang."""
    return Path(os.environ.get(PYTHON_VARIABLE) or places.venv / "bin/python")


def missing(places: Places) -> str:
    """Why no engine can be started; empty when one can."""
    for path in (engine_python(places), places.checkpoints / "info.json"):
        if not path.exists():
            return f"{path} is not there: run tests/real/run.sh, which makes it, or set {PYTHON_VARIABLE}"
    return ""


class ProbeEngine:
    """One engine with the probe in it.

    Args:
        folder: for its log and the probe's files.
        places: where the checkpoints are.
        tp: tensor-parallel ranks.
        env: more environment.
        tree: draft two branches at each of three steps, at a fixed depth: SGLang's tiers draft one branch only.
    """

    def __init__(
        self,
        folder: Path,
        places: Places,
        *,
        tp: int = 1,
        env: dict[str, str] | None = None,
        tree: bool = False,
    ) -> None:
        self.places = places
        self.tp = tp
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.probe_dir = folder / "probe"
        self.probe_dir.mkdir(mode=0o700, parents=True)
        self.log_path = folder / "engine.log"
        tiers = folder / "tiers.json"
        tiers.write_text(json.dumps({"1": {"candidate_steps": [0, 1, 2, 3, 5]}}))
        self._process: subprocess.Popen[bytes] | None = None
        self._environment = {
            **os.environ,
            "PYTHONPATH": f"{PROBE}:{HERE / 'engine_shim'}",
            "SGLANG_USE_CPU_ENGINE": "1",
            "SGLANG_ENABLE_METRICS_DEVICE_TIMER": "0",
            "TORCH_COMPILE_DISABLE": "1",
            "SGLANG_CONSOLE_PROBE_DIR": str(self.probe_dir),
            "SGLANG_CONSOLE_PROBE_FAULTS": "1",
            **({"SGLANG_CPU_OMP_THREADS_BIND": cores_of_ranks(tp)} if tp > 1 else {}),
            **(env or {}),
        }
        self._argv = [
            *(str(engine_python(places)), "-m", "sglang.launch_server"),
            *("--model-path", str(places.checkpoints / "target"), "--host", "127.0.0.1", "--port", str(self.port)),
            *("--device", "cpu", "--tp", str(tp), "--attention-backend", "torch_native"),
            *("--sampling-backend", "pytorch", "--max-total-tokens", "16384", "--context-length", "4096"),
            *("--max-running-requests", "8", "--enable-metrics", "--decode-log-interval", "10"),
            *("--speculative-algorithm", "EAGLE3", "--speculative-num-steps", "3"),
            *("--speculative-eagle-topk", "2" if tree else "1"),
            *("--speculative-num-draft-tokens", "6" if tree else "4"),
            *(() if tree else ("--speculative-adaptive", "--speculative-adaptive-config", str(tiers))),
            *("--speculative-draft-model-path", str(places.checkpoints / "drafter-a")),
        ]

    def start(self) -> None:
        """Start it and wait for its first token."""
        with self.log_path.open("wb") as log:
            self._process = subprocess.Popen(
                ["nice", "-n", "5", *self._argv],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_S[self.tp]
        while not self._serves():
            assert self._process.poll() is None, f"the engine ended\n{self.log()[-4000:]}"
            assert time.monotonic() < deadline, f"the engine did not start\n{self.log()[-4000:]}"
            time.sleep(0.5)

    def _serves(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/ready", timeout=5):
                pass
        except (urllib.error.URLError, OSError):
            return False
        return "The server is fired up and ready to roll!" in self.log()

    @property
    def alive(self) -> bool:
        """Whether the launcher still runs."""
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        """All it has said."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def end(self) -> None:
        """Leave no process behind."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(30)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # its own session: nothing but its own processes
        self._process.wait(10)
