"""The profile's command for alarms: run detached, one at a time, with a time limit, told on standard input."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from console.engine.logtext import sanitize
from console.rig import Alarm, Snapshot
from profiles.schema import AlarmSection

MOST_WAITING = 100
"""Calls waiting for a command that is slow; what comes on top is not called, which is told."""


class Call(NamedTuple):
    """One run of the command."""

    section: AlarmSection
    payload: bytes
    alarm_id: str


class AlarmHook:
    """Follows the alarms and calls the command for each that rises or is over.

    Args:
        rig: the rig's name.
        log_path: where the command's own output goes: the agent's log.
        told: takes a line about a call that failed, in any thread.
    """

    def __init__(self, rig: str, log_path: Path, told: Callable[[str], None]) -> None:
        self._rig = rig
        self._log_path = log_path
        self._told = told
        self._standing: dict[str, Alarm] = {}
        self._calls: queue.Queue[Call] = queue.Queue(MOST_WAITING)
        self._thread: threading.Thread | None = None

    def seen(self, snapshot: Snapshot, section: AlarmSection | None) -> None:
        """Compare the alarms with those before; returns at once.

        Args:
            snapshot: the newest one.
            section: of the profile in force; ``None`` without one: alarms are followed, nothing is called.
        """
        now = {alarm.id: alarm for alarm in snapshot.alarms}
        before, self._standing = self._standing, now
        if section is None or not section.command:
            return
        for alarm in now.values():
            if alarm.id not in before:
                self._call("raised", alarm, snapshot, section)
        for alarm in before.values():
            if alarm.id not in now:
                self._call("over", alarm, snapshot, section)

    def _call(self, event: str, alarm: Alarm, snapshot: Snapshot, section: AlarmSection) -> None:
        document = {
            "event": event,
            "rig": self._rig,
            "host": socket.gethostname(),
            "simulated": snapshot.simulated,
            "at_s": snapshot.at_s,
            "profile": snapshot.engine.profile,
            "model": snapshot.engine.model,
            "alarm": {name: getattr(alarm, name) for name in Alarm.__struct_fields__},
        }
        try:
            self._calls.put_nowait(Call(section, msgspec.json.encode(document) + b"\n", alarm.id))
        except queue.Full:
            self._told(f"the alarm command was not called for {alarm.id}: {MOST_WAITING} calls are waiting")
            return
        if self._thread is None:
            # A daemon thread: the agent's end waits for no command, and a command that runs then goes on by itself.
            self._thread = threading.Thread(target=self._work, name="alarm-hook", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while True:
            call = self._calls.get()
            problem = run(call.section.command, call.payload, call.section.timeout_s, self._log_path)
            if problem:
                self._told(f"the alarm command failed for {call.alarm_id}: {problem}")


def run(command: tuple[str, ...], payload: bytes, timeout_s: float, log_path: Path) -> str:
    """Run a command in a session of its own; why it failed, empty when it did not."""
    name = sanitize(command[0], limit_chars=200)
    try:
        with _log(log_path) as output:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=output, stderr=output, cwd="/", start_new_session=True
            )
    except (OSError, ValueError) as error:
        return f"{name}: {getattr(error, 'strerror', None) or error}"
    try:
        process.communicate(payload, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        # Not waited for yet, so its pid, which is its group's, cannot be anybody else's.
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return f"{name} took longer than {timeout_s:g} s and was ended"
    code = process.returncode
    return "" if code == 0 else f"{name} ended with exit code {code}; its output is in {log_path}"


@contextlib.contextmanager
def _log(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
