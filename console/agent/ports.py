"""Is a TCP port free, and who holds it?"""

from __future__ import annotations

import errno
import socket
from typing import NamedTuple

from console.agent import identity
from console.engine.secrets import mask_text


class Holder(NamedTuple):
    """Who listens on a port. ``pid`` is ``None`` for a process of another user or another container."""

    port: int
    pid: int | None = None
    command: str = ""
    age_s: float | None = None

    @property
    def line(self) -> str:
        """In the operator's words."""
        if self.pid is None:
            return "a process that this user cannot see"
        age = "" if self.age_s is None else f", running for {span(self.age_s)}"
        return f"pid {self.pid} ({self.command or 'no command line'}{age})"


def span(seconds: float) -> str:
    """A time in its two largest units: ``3 h 5 min``; below ten seconds with a decimal."""
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f} s"
    whole = round(seconds)
    for unit, size, below, below_size in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // below_size} {below}"
    return f"{whole} s"


def is_free(host: str, port: int) -> bool:
    """Whether the engine could listen there, by doing what its HTTP server will do.

    Raises:
        OSError: the address itself is no good on this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
    return True


def any_free(host: str) -> int:
    """A port that nobody holds at this moment."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def holder(port: int) -> Holder:
    """Who listens on a port, as far as this user may know."""
    import psutil

    try:
        connections = psutil.net_connections("tcp")
    except (psutil.Error, OSError):
        connections = []
    for connection in connections:
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port:
            if connection.pid is None:
                continue
            found = identity.entry(connection.pid)
            age = None if found is None else identity.age_s(found.start_ticks)
            return Holder(port, connection.pid, mask_text(identity.command_of(connection.pid)), age)
    return Holder(port)
