"""Starting a rig's agent, detached, when none runs."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

from console.agent import left
from console.agent.client import AgentClient, AgentGoneError
from console.errors import ConsoleError, ExitCode
from console.paths import RigPaths

START_S = 15.0
"""An agent listens after a fraction of a second; a busy box gets more."""
TAIL_LINES = 5
READY = b"ready"


def ensure_agent(name: str, *, simulated: bool | None = None) -> AgentClient:
    """A client of the rig's agent, which is started when none runs.

    Args:
        name: the rig.
        simulated: start it for the simulated rig; ``None``: as the rig's newest engine was. No matter when it runs already.

    Raises:
        ConsoleError: it does not come up, and why.
    """
    paths = RigPaths(name)
    client = AgentClient(paths)
    try:
        client.ping()
    except AgentGoneError:
        paths.make()
        _start(paths, simulated=left.is_simulated(paths.state) if simulated is None else simulated)
        client.ping()
    return client


def _start(paths: RigPaths, *, simulated: bool) -> None:
    """Start the agent and wait until it listens: it says so, or why not, through a pipe."""
    reading, writing = os.pipe()
    command = [sys.executable, "-P", "-m", "console.agent", "--rig", paths.name, "--detach", "--ready-fd", str(writing)]
    if simulated:
        command.append("--simulated")
    try:
        with _agent_log(paths.agent_log) as log:
            launched = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=_environment(),
                pass_fds=(writing,),
                start_new_session=True,
            )
        os.close(writing)
        writing = -1
        answer = _answer(reading)
        launched.wait(timeout=START_S)  # it forks at once; this is the fork's parent
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConsoleError("the agent cannot be started", why=str(error)) from error
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)
    if answer != READY:
        raise _failed(paths, answer)


def _agent_log(path: Path) -> IO[bytes]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    return os.fdopen(descriptor, "ab")


def _environment() -> dict[str, str]:
    """The environment the agent and its engines inherit; a checkout that is not installed is found again."""
    env = dict(os.environ)
    here = str(Path(__file__).resolve().parents[2])
    if not _installed(here):
        env["PYTHONPATH"] = os.pathsep.join([here, *([env["PYTHONPATH"]] if env.get("PYTHONPATH") else [])])
    return env


def _installed(folder: str) -> bool:
    """Whether Python finds the packages beside this one without the current folder on its path."""
    return any(entry and Path(entry) == Path(folder) for entry in sys.path[1:]) or "site-packages" in folder


def _answer(reading: int) -> bytes:
    """What the agent writes before it closes the pipe; empty when it died, or nothing within the time."""
    deadline = time.monotonic() + START_S
    said = b""
    while (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([reading], [], [], left)
        if not ready:
            return said or b"it did not listen within %d s" % START_S
        piece = os.read(reading, 4096)
        if not piece:
            return said
        said += piece
    return said


def _failed(paths: RigPaths, answer: bytes) -> ConsoleError:
    why = answer.decode(errors="replace").strip() or _tail(paths.agent_log) or "it ended without a word"
    return ConsoleError(
        f"the agent of rig {paths.name} did not come up", why=why, todo=f"see {paths.agent_log}", code=ExitCode.FAILED
    )


def _tail(path: Path) -> str:
    try:
        lines = path.read_text(errors="replace").splitlines()[-TAIL_LINES:]
    except OSError:
        return ""
    return " | ".join(line.strip() for line in lines if line.strip())
