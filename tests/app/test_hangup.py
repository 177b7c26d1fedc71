"""A console whose terminal is gone ends, also when no signal tells it."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time

from console.screens.hangup import HANGUP_EXIT_CODE, end_with_the_terminal


def test_a_closed_terminal_is_noticed_and_an_open_one_is_not():
    leader, follower = pty.openpty()
    said = []
    thread = end_with_the_terminal(follower, said.append)
    thread.join(0.1)
    os.write(leader, b"keys\n")
    thread.join(0.1)
    assert thread.is_alive()
    assert said == []
    os.close(leader)
    thread.join(5)
    os.close(follower)
    assert said == [HANGUP_EXIT_CODE]


def test_the_console_ends_although_sighup_is_ignored(tmp_path):
    """As seen when a tmux server was killed: no SIGHUP arrived and the console spun on end-of-file."""
    leader, follower = pty.openpty()
    environment = os.environ | {
        "SGLANG_CONSOLE_HOME": str(tmp_path),
        "TERM": "xterm-256color",
        "COLUMNS": "100",
        "LINES": "30",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "console", "--rig", "nobody"], stdin=follower, stdout=follower, stderr=follower, env=environment,
        start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )  # fmt: skip
    os.close(follower)
    try:
        assert os.read(leader, 1), "it draws"
        time.sleep(1.0)
        os.close(leader)
        assert process.wait(10) == HANGUP_EXIT_CODE
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        subprocess.run(
            [sys.executable, "-m", "console", "--rig", "nobody", "agent", "stop"],
            env=environment,
            capture_output=True,
            timeout=20,
            check=False,
        )
