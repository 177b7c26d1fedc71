"""The launcher of an engine as a process: started in a session of its own, or adopted, and watched until it ends.

The kernel reports the end through a pidfd, for children and for adopted processes alike; a child is waited for at once,
so that no zombie keeps its pid.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from console.agent import identity
from console.agent.identity import Identity


class EngineProcess:
    """A launcher that is watched. Create it on the event loop.

    Args:
        known: which process.
        descriptor: its pidfd, owned by this object; ``None`` when it is gone already.
    """

    def __init__(self, known: Identity, descriptor: int | None) -> None:
        self.identity = known
        self.ended = asyncio.Event()
        self.exit_code: int | None = None
        """As :attr:`subprocess.Popen.returncode`; ``None`` for a process that was adopted."""
        self._descriptor = descriptor
        if descriptor is None:
            self._end()
        else:
            asyncio.get_running_loop().add_reader(descriptor, self._end)

    @classmethod
    def start(cls, argv: Sequence[str], env: Mapping[str, str], log_path: Path) -> EngineProcess:
        """Start a launcher: own session, nothing on its standard input, all output at the end of a file.

        Raises:
            OSError: the log cannot be opened or the program cannot be run.
        """
        log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            pid = os.posix_spawnp(
                argv[0],
                list(argv),
                env,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, log, 1),
                    (os.POSIX_SPAWN_DUP2, log, 2),
                ],
                setsid=True,
                setsigmask=(),
                setsigdef=(signal.SIGPIPE, signal.SIGHUP, signal.SIGTERM, signal.SIGINT),
            )
        finally:
            os.close(log)
        # Nobody else waits for it, so that its line stays in the process table whatever happens to it.
        found = identity.entry(pid)
        ticks = found.start_ticks if found is not None else 0
        return cls(Identity(pid, ticks, identity.boot_id()), os.pidfd_open(pid))

    @classmethod
    def adopt(cls, known: Identity) -> EngineProcess:
        """Watch a process that somebody else started."""
        return cls(known, identity.open_pidfd(known))

    def signal(self, number: signal.Signals) -> bool:
        """Signal the launcher; False when it is gone."""
        if self._descriptor is None:
            return False
        try:
            signal.pidfd_send_signal(self._descriptor, number)
        except ProcessLookupError:
            return False
        return True

    def release(self) -> None:
        """Stop watching; the process lives on."""
        if self._descriptor is not None:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    async def wait(self, timeout_s: float) -> bool:
        """Wait for its end; False when it has not come in time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.ended.wait()
        except TimeoutError:
            return False
        return True

    def _end(self) -> None:
        self.release()
        try:
            pid, status = os.waitpid(self.identity.pid, os.WNOHANG)
        except ChildProcessError:
            pid, status = 0, 0
        if pid:
            self.exit_code = os.waitstatus_to_exitcode(status)
        self.ended.set()
