"""nvitop beside the console: the tool operators know, on the same fake NVML."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

VENV = Path(__file__).parents[2] / ".cache/bench-venv"
VERSION = "nvitop>=1.5"


def command() -> list[str] | None:
    """How to start nvitop in its own environment, installed at the first use; ``None`` when it cannot be installed."""
    program = VENV / "bin/nvitop"
    if not program.exists():
        print(f"installing {VERSION} into {VENV}", file=sys.stderr)
        steps = (
            [sys.executable, "-m", "venv", str(VENV)],
            [str(VENV / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", VERSION],
        )
        for step in steps:
            if subprocess.run(step, check=False, timeout=180, stdout=subprocess.DEVNULL).returncode:
                return None
    return [str(program), "--monitor", "full"] if program.exists() else None


def environment(library: Path, gpus: int) -> dict[str, str]:
    """Environment in which NVML is the fake one with ``gpus`` cards."""
    return {**os.environ, "LD_LIBRARY_PATH": str(library.parent), "FAKE_NVML_GPUS": str(gpus), "TERM": "xterm-256color"}
