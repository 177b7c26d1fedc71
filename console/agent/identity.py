"""Which process is meant: pid, start time and boot together, because a pid alone is used again.

Signals go through a pidfd whose start time was checked after it was opened, so that they cannot hit a successor.
Format of /proc/PID/stat: proc_pid_stat(5).
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import NamedTuple

import msgspec

PROC = Path("/proc")


class Identity(msgspec.Struct, frozen=True):
    """A process for good: no other one ever has the same three."""

    pid: int
    start_ticks: int
    """Clock ticks between boot and start; field 22 of /proc/PID/stat."""
    boot_id: str = ""


class Entry(NamedTuple):
    """One line of the process table."""

    pid: int
    state: str
    """One letter; Z is a process that has ended and that nobody has waited for."""
    ppid: int
    session: int
    start_ticks: int

    @property
    def ended(self) -> bool:
        """Whether it is only a leftover in the table."""
        return self.state in {"Z", "X", "x"}


def boot_id() -> str:
    """The kernel's name for this boot; empty where it tells none."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def entry(pid: int) -> Entry | None:
    """The process table's line of a process; ``None`` when there is none."""
    try:
        raw = (PROC / str(pid) / "stat").read_bytes()
        fields = raw.rpartition(b")")[2].split()
        return Entry(pid, fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[19]))
    except (OSError, ValueError, IndexError):
        return None


def table() -> list[Entry]:
    """Every process that can be seen."""
    try:
        pids = [int(name) for name in os.listdir(PROC) if name.isdecimal()]  # noqa: PTH208 - 10x cheaper
    except OSError:
        return []
    return [found for pid in pids if (found := entry(pid)) is not None]


def identify(pid: int) -> Identity | None:
    """The identity of a process that lives now."""
    found = entry(pid)
    return None if found is None or found.ended else Identity(pid, found.start_ticks, boot_id())


def why_gone(known: Identity) -> str:
    """Why a process of an earlier time is not there any more; empty when it lives."""
    here = boot_id()
    if known.boot_id and here and known.boot_id != here:
        return "the machine was booted since"
    found = entry(known.pid)
    if found is None or found.ended:
        return "it ended while no agent watched"
    if found.start_ticks != known.start_ticks:
        return f"it ended while no agent watched, and pid {known.pid} is another process now"
    return ""


def open_pidfd(known: Identity) -> int | None:
    """A file descriptor that names exactly this process; ``None`` when it is gone. The caller closes it."""
    try:
        descriptor = os.pidfd_open(known.pid)
    except OSError:
        return None
    if why_gone(known):
        os.close(descriptor)
        return None
    return descriptor


def send(known: Identity, number: signal.Signals) -> bool:
    """Signal exactly this process; False when it is gone."""
    descriptor = open_pidfd(known)
    if descriptor is None:
        return False
    try:
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


def age_s(start_ticks: int) -> float:
    """Seconds since a process started."""
    up_s = float((PROC / "uptime").read_text().split()[0])
    return max(0.0, up_s - start_ticks / os.sysconf("SC_CLK_TCK"))


def command_of(pid: int, limit_chars: int = 120) -> str:
    """The command line of a process, printable and short; secrets are for the caller to mask."""
    try:
        raw = (PROC / str(pid) / "cmdline").read_bytes()[:4096]
    except OSError:
        return ""
    text = raw.replace(b"\0", b" ").decode(errors="replace")
    shown = "".join(character for character in text if character.isprintable()).strip()
    return shown if len(shown) <= limit_chars else shown[: limit_chars - 3] + "..."


def with_environment(name: str, value: str) -> Identity | None:
    """The oldest process of this user that was started with ``name=value``."""
    wanted = f"{name}={value}".encode()
    found: list[Entry] = []
    for candidate in table():
        try:
            if wanted in (PROC / str(candidate.pid) / "environ").read_bytes().split(b"\0"):
                found.append(candidate)
        except OSError:
            continue
    living = [candidate for candidate in found if not candidate.ended]
    if not living:
        return None
    first = min(living, key=lambda candidate: candidate.start_ticks)
    return Identity(first.pid, first.start_ticks, boot_id())
