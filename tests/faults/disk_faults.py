"""The disk is full or read-only: nothing is recorded, that is said, everything else goes on, and it resumes by itself.

As root the rig lies on a small tmpfs that is really filled and really made read-only. Besides, the kernel refuses the
agent every write (RLIMIT_FSIZE 0 on the running process), which needs no right at all and stands for a used-up quota.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from console import rig
from console.agent import record
from tests.faults.kinds import Family, Kind, NotPossibleError, Outcome, check
from tests.faults.rig import FaultRig, simulated, until

SIZE_MIB = 24
DISK_WORDS = ("No space left", "File too large", "Read-only")
MOST_GAP_S = 2.5
RESUMES_S = 45.0
"""The journal is tried again every 30 s."""


def _mount(*words: str) -> bool:
    return os.geteuid() == 0 and subprocess.run(["mount", *words], capture_output=True, timeout=10).returncode == 0


@contextlib.contextmanager
def on_small_disk(name: str, folder: Path) -> Iterator[FaultRig]:
    """A simulated rig on a tmpfs of its own where that can be had."""
    with simulated(name, folder) as made:
        made.paths.dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        mounted = _mount("-t", "tmpfs", "-o", f"size={SIZE_MIB}m,mode=0700", "tmpfs", str(made.paths.dir))
        try:
            yield made
        finally:
            made.end()
            if mounted:
                subprocess.run(["umount", "-l", str(made.paths.dir)], check=True, timeout=10)


def _goes_on(on: FaultRig, since_s: float) -> rig.Operation:
    """While nothing can be recorded: snapshots, the engine, and an operation."""
    until(lambda: on.snapshot().at_s > since_s, "snapshots go on", 3.0)
    check(on.is_ready(), "the engine is ready")
    done = on.do("depth", depth=2 + int(since_s) % 2)
    # A command to the probe is a file beside the state: an operation may fail of the same disk, and has to say so.
    good = done.state is rig.OperationState.DONE or any(why in done.message for why in DISK_WORDS)
    check(good, f"an operation works or names the disk: {done.message}")
    return done


def _noticed(on: FaultRig) -> float:
    return until(lambda: "not being recorded" in on.snapshot().agent.journal_note, "it is said", 15.0)


def _resumes(on: FaultRig, done: rig.Operation, noticed_s: float, bad_since_s: float) -> Outcome:
    """The note goes, and the operation and the samples of the bad time are in the journal."""
    until(lambda: on.snapshot().agent.journal_note == "", "it is recorded again", RESUMES_S, pause_s=0.2)
    row = on.recorded(done)
    check(row is not None and row["state"] == done.state, "the operation of the bad time is recorded")
    at_s = time.time()
    until(lambda: record.read_samples(on.paths.history, at_s), "samples are recorded", 6.0)
    gap_s = on.longest_gap_s(bad_since_s, time.time())
    return Outcome(noticed_s, "" if gap_s <= MOST_GAP_S else f"samples of {gap_s:.0f} s")


def full(on: FaultRig, _chance: random.Random) -> Outcome:
    """The file system has no byte left."""
    on.up()
    if not on.paths.dir.is_mount():
        raise NotPossibleError("only root may mount a small disk")
    ballast = on.paths.dir / "ballast"
    at_s = time.time()
    try:
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        noticed_s = _noticed(on)
        done = _goes_on(on, at_s)
    finally:
        ballast.unlink(missing_ok=True)
    return _resumes(on, done, noticed_s, at_s)


def read_only(on: FaultRig, _chance: random.Random) -> Outcome:
    """The folder is read-only for everybody. A file that is open for writing forbids that, so the agent is begun in it."""
    engine = on.up()
    if not on.paths.dir.is_mount():
        raise NotPossibleError("only root may make a folder read-only for itself")
    at_s = time.time()
    on.kill_agent()
    # A bind mount is made read-only whatever is open below it.
    check(_mount("--bind", str(on.paths.dir), str(on.paths.dir)), "a bind mount")
    try:
        check(_mount("-o", "remount,bind,ro", str(on.paths.dir)), "it is read-only")
        begun = time.monotonic()
        again = subprocess.run(
            [*on.agent_command(), "--detach", "--ready-fd", "1"], env=on.env, capture_output=True, text=True, timeout=20
        )
        noticed_s = time.monotonic() - begun
        check("Read-only" in again.stdout, f"it is said why no agent can be: {again.stdout!r}")
        check("\n" not in again.stdout.strip(), "one line")
        check("Traceback" not in again.stderr, f"no traceback: {again.stderr!r}")
    finally:
        subprocess.run(["umount", "-l", str(on.paths.dir)], check=True, timeout=10)
    on.start_agent()
    until(on.is_ready, "the engine is taken over", 10.0)
    check(on.engine == engine, "it is the same engine")
    newest = on.newest_sample_s(at_s)
    check(newest is not None and at_s - newest < 2.0, "what was recorded is there")
    return Outcome(noticed_s)


def read_only_under_it(on: FaultRig, _chance: random.Random) -> Outcome:
    """The folder becomes read-only under a running agent: it says that its state cannot be written, and works on."""
    on.up()
    if not on.paths.dir.is_mount():
        raise NotPossibleError("only root may make a folder read-only for itself")
    begun, at_s = time.monotonic(), time.time()
    check(_mount("--bind", str(on.paths.dir), str(on.paths.dir)), "a bind mount")
    try:
        check(_mount("-o", "remount,bind,ro", str(on.paths.dir)), "it is read-only")
        on.do("restart")
        until(lambda: on.told("cannot be written", since_s=at_s), "that the state cannot be written", 5.0)
        noticed_s = time.monotonic() - begun
        until(lambda: on.snapshot().at_s > at_s, "snapshots go on", 3.0)
    finally:
        subprocess.run(["umount", "-l", str(on.paths.dir)], check=True, timeout=10)
    on.up()
    return Outcome(noticed_s)


def quota(on: FaultRig, _chance: random.Random) -> Outcome:
    """The kernel refuses every write of the agent to a file."""
    on.up()
    agent = on.agent.pid
    _, hard = resource.prlimit(agent, resource.RLIMIT_FSIZE)
    at_s = time.time()
    resource.prlimit(agent, resource.RLIMIT_FSIZE, (0, hard))
    try:
        noticed_s = _noticed(on)
        done = _goes_on(on, at_s)
    finally:
        resource.prlimit(agent, resource.RLIMIT_FSIZE, (hard, hard))
    return _resumes(on, done, noticed_s, at_s)


SAID = "until the snapshot says that nothing is recorded"
FAMILY = Family(
    "disk",
    on_small_disk,
    (
        Kind("state folder read-only (mount)", 5, "until the reason is told", read_only),
        Kind("state folder read-only under the agent", 4, "until it is told", read_only_under_it, harms=True),
        Kind("disk full (tmpfs)", 3, SAID, full),
        Kind("writes refused (RLIMIT_FSIZE)", 3, SAID, quota),
    ),
)
