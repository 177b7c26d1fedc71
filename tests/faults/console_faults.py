"""The console is killed, stopped, or loses its terminal: nobody else notices."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time

from console.agent import identity
from tests.faults.kinds import Family, Kind, NotPossibleError, Outcome, check
from tests.faults.rig import FaultRig, known_process, lives, simulated, until
from tests.faults.terminal import ConsoleTerminal

LIVE = "READY"
"""Stands on the deck as soon as the agent's first snapshot is drawn."""
SHOWN = "until the next console shows the engine"


def _served_since(on: FaultRig, since_s: float) -> None:
    until(lambda: on.snapshot().at_s > since_s, "the agent goes on after the console", 3.0)


def killed(on: FaultRig, _chance: random.Random) -> Outcome:
    """SIGKILL to a console that shows figures; the next one shows them again."""
    terminal = ConsoleTerminal(on)
    try:
        shown_s = terminal.until_shows(LIVE)
        at_s = time.time()
        identity.send(terminal.known, signal.SIGKILL)
        terminal.until_ended()
        _served_since(on, at_s)
    finally:
        terminal.close()
    return Outcome(shown_s)


def hung_up(on: FaultRig, _chance: random.Random) -> Outcome:
    """The terminal goes away, as an ssh connection does: the console ends, and nothing else."""
    terminal = ConsoleTerminal(on)
    try:
        terminal.until_shows(LIVE)
        at_s = time.time()
        terminal.hang_up()
        ended_s = terminal.until_ended()
        _served_since(on, at_s)
    finally:
        terminal.close()
    return Outcome(ended_s)


def stopped(on: FaultRig, chance: random.Random) -> Outcome:
    """SIGSTOP to a console: the agent is not delayed by a reader that reads no more; SIGCONT: it shows figures again."""
    terminal = ConsoleTerminal(on)
    try:
        terminal.until_shows(LIVE)
        identity.send(terminal.known, signal.SIGSTOP)
        time.sleep(0.3 + 0.7 * chance.random())
        begun = time.monotonic()
        on.client.ping()
        check(time.monotonic() - begun < 2.0, "the agent answers while a console is stopped")
        _served_since(on, time.time())
        terminal.forget()
        identity.send(terminal.known, signal.SIGCONT)
        shown_s = until(lambda: terminal.shows("."), "the console draws again", 5.0)
    finally:
        terminal.close()
    return Outcome(shown_s)


def tmux_killed(on: FaultRig, _chance: random.Random) -> Outcome:
    """SIGKILL to the tmux server that a console runs in: the console ends."""
    tmux = shutil.which("tmux")
    if tmux is None:
        raise NotPossibleError("tmux is not installed")
    env = {**on.env, "TMUX_TMPDIR": str(on.folder)}

    def ask(*words: str) -> str:
        return subprocess.run([tmux, *words], env=env, capture_output=True, text=True, timeout=10).stdout

    console = [sys.executable, "-m", "console", "--rig", on.name]
    ask("-f", os.devnull, "new-session", "-d", "-x", "140", "-y", "40", *console)
    server = on.note(int(ask("display-message", "-p", "#{pid}")))
    pane = on.note(int(ask("display-message", "-p", "#{pane_pid}")))
    until(lambda: LIVE in ask("capture-pane", "-p"), "the console in tmux shows the engine", 20.0, pause_s=0.1)
    at_s = time.time()
    identity.send(server, signal.SIGKILL)
    ended_s = until(lambda: not lives(pane), "the console has ended with its tmux", 5.0)
    _served_since(on, at_s)
    return Outcome(ended_s)


def agent_stopped_seen(on: FaultRig, chance: random.Random) -> Outcome:
    """SIGSTOP to the agent under a console: the console says so; SIGCONT: figures again, the agent the same."""
    terminal = ConsoleTerminal(on)
    agent = on.agent
    try:
        terminal.until_shows(LIVE)
        identity.send(agent, signal.SIGSTOP)
        said_s = terminal.until_shows("AGENT SILENT", 8.0)
        time.sleep(chance.random())
        identity.send(agent, signal.SIGCONT)
        _served_since(on, time.time())
        check(known_process(on.agent_pid) == agent, "it is the same agent")
    finally:
        identity.send(agent, signal.SIGCONT)
        terminal.close()
    return Outcome(said_s)


FAMILY = Family(
    "console",
    simulated,
    (
        Kind("console -9", 12, SHOWN, killed),
        Kind("terminal closed (SIGHUP)", 12, "until the console has ended", hung_up),
        Kind("console SIGSTOP/CONT", 5, "until it draws again", stopped),
        Kind("tmux server -9", 6, "until the console has ended", tmux_killed),
        Kind("agent SIGSTOP/CONT under a console", 5, "until the console says so", agent_stopped_seen, pauses=True),
    ),
    steady=True,
)
