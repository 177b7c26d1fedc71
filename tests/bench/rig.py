"""A simulated rig for the benchmarks: its own home, its own agent, stopped at the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

PROFILE = "demo"
NAME = "bench"


class Rig:
    """The simulated engine under its own agent.

    Args:
        home: folder for everything the rig writes.
        gpus: how many simulated cards.
    """

    def __init__(self, home: Path, gpus: int) -> None:
        self.gpus = gpus
        self.env = {
            **os.environ,
            "SGLANG_CONSOLE_HOME": str(home),
            "SGLANG_SIM_GPUS": str(gpus),
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
        }

    def console(self, *words: str, timeout_s: float = 90) -> subprocess.CompletedProcess[str]:
        """Run one console command on this rig."""
        argv = [sys.executable, "-m", "console", "--rig", NAME, *words]
        return subprocess.run(argv, env=self.env, capture_output=True, text=True, timeout=timeout_s, check=False)

    @property
    def deck(self) -> list[str]:
        """The command that opens the deck on this rig."""
        return [sys.executable, "-m", "console", "--rig", NAME]

    def status(self) -> dict[str, Any]:
        """The newest snapshot; empty when the agent does not answer."""
        done = self.console("status", "--json")
        try:
            snapshot: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            return {}
        return snapshot

    def __enter__(self) -> Self:
        started = self.console("run", PROFILE)
        if started.returncode:
            raise SystemExit(f"bench: the simulated rig did not start: {started.stderr.strip()}")
        deadline = time.monotonic() + 60
        while self.status().get("engine", {}).get("state") != "ready":
            if time.monotonic() > deadline:
                raise SystemExit("bench: the simulated engine did not become ready within 60 s")
            time.sleep(0.5)
        return self

    def __exit__(self, *_: object) -> None:
        self.console("stop")
        self.console("agent", "stop")
