"""A simulated rig for the benchmarks: its own home, its own agent and port, stopped at the end."""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path
from typing import Self

from console.agent.client import AgentClient
from console.agent.spawn import ensure_agent
from console.rig import EngineState

NAME = "bench"
READY_S = 60.0
BUILT_IN = Path(__file__).parents[2] / "profiles/builtin/simulated.toml"


class Rig:
    """The simulated engine under its own agent.

    Args:
        home: folder for everything the rig writes.
        gpus: how many simulated cards.
    """

    def __init__(self, home: Path, gpus: int) -> None:
        self.gpus = gpus
        self._home = home
        self._own = {"SGLANG_CONSOLE_HOME": str(home), "SGLANG_SIM_GPUS": str(gpus), "TERM": "xterm-256color"}
        self.env = {**os.environ, **self._own}
        self.client: AgentClient

    @property
    def deck(self) -> list[str]:
        """The command that opens the deck on this rig."""
        return [sys.executable, "-m", "console", "--rig", NAME]

    def _profile(self) -> Path:
        """The built-in simulated profile on a port of its own."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        lines = BUILT_IN.read_text().splitlines()
        path = self._home / "simulated.toml"
        path.write_text("\n".join(f"port = {port}" if line.startswith("port =") else line for line in lines) + "\n")
        return path

    def __enter__(self) -> Self:
        self._home.mkdir(parents=True)
        os.environ.update(self._own)  # the agent is this process's child and inherits it
        self.client = ensure_agent(NAME, simulated=True)
        self.client.operate("launch", {"profile": str(self._profile())})
        deadline = time.monotonic() + READY_S
        while (engine := self.client.snapshot().engine).state is not EngineState.READY:
            if time.monotonic() > deadline:
                raise SystemExit(f"bench: the simulated engine is not ready after {READY_S:.0f} s: {engine.note}")
            time.sleep(0.2)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.operate("stop", {})
        deadline = time.monotonic() + READY_S
        while self.client.snapshot().engine.state is not EngineState.STOPPED and time.monotonic() < deadline:
            time.sleep(0.2)
        self.client.stop_agent()
