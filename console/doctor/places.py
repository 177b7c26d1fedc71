"""Folders, space, ports, limits: what a launch needs of the box."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from console import paths
from console.doctor.finding import Finding, fail, ok, size_text, warn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MIB, GIB = 1 << 20, 1 << 30
LEAST_FILES = 4096
TCP_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
LISTEN = "0A"


def check_space(environment: Mapping[str, str] | None = None) -> Iterator[Finding]:
    """Free space of the state folder, the hub's cache and shared memory."""
    variables = os.environ if environment is None else environment
    yield space("state folder", "disk-state", paths.state_dir(), warn_bytes=GIB, fail_bytes=20 * MIB)
    yield space("hub cache", "disk-cache", hub_cache(variables), warn_bytes=20 * GIB, fail_bytes=0)
    shm = Path("/dev/shm")  # noqa: S108 - looked at, not written to
    yield space("shared memory", "disk-shm", shm, warn_bytes=GIB, fail_bytes=64 * MIB)


def hub_cache(variables: Mapping[str, str]) -> Path:
    """Where huggingface_hub keeps downloads; the same order of variables as its own."""
    if cache := variables.get("HF_HUB_CACHE") or variables.get("HUGGINGFACE_HUB_CACHE"):
        return Path(cache).expanduser()
    if home := variables.get("HF_HOME"):
        return Path(home).expanduser() / "hub"
    base = variables.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "huggingface" / "hub"


def space(what: str, check: str, folder: Path, *, warn_bytes: int, fail_bytes: int) -> Finding:
    """Free space where ``folder`` is, or would be made."""
    place = existing(folder)
    try:
        free = shutil.disk_usage(place).free
    except OSError as error:
        return warn(check, f"{what}: {folder} cannot be looked at ({error.strerror})", "check that it is mounted")
    message = f"{what}: {size_text(free)} free in {folder}"
    data = {"path": str(folder), "free_bytes": free}
    if free < fail_bytes:
        return fail(check, message, f"free at least {size_text(fail_bytes)}", **data)
    if free < warn_bytes:
        return warn(check, message, f"{size_text(warn_bytes)} or more is comfortable", **data)
    return ok(check, message, **data)


def existing(folder: Path) -> Path:
    """The nearest folder above that exists."""
    for place in (folder, *folder.parents):
        with contextlib.suppress(OSError):
            if place.is_dir():
                return place
    return Path("/")


def check_permissions() -> Iterator[Finding]:
    """Whether the console may keep its files, and the limits that SGLang meets first."""
    folder = paths.state_dir()
    place = existing(folder)
    if not os.access(place, os.W_OK | os.X_OK):
        todo = f"make it writable, or set {paths.HOME_VARIABLE} to a folder of your own"
        yield fail("permissions", f"{place} cannot be written to", todo, path=str(folder))
    elif folder.exists() and folder.stat().st_uid != os.getuid():
        todo = f"set {paths.HOME_VARIABLE} to a folder of your own"
        yield fail("permissions", f"{folder} belongs to user {folder.stat().st_uid}", todo, path=str(folder))
    else:
        yield ok("permissions", f"state folder {folder} can be written", path=str(folder))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < LEAST_FILES:
        todo = f"ulimit -n {LEAST_FILES if hard < 0 else min(hard, 65536)}: eight ranks and their sockets need more"
        yield warn("open-files", f"at most {soft} open files", todo, soft=soft, hard=hard)
    else:
        yield ok("open-files", f"at most {'any number of' if soft < 0 else soft} open files", soft=soft, hard=hard)


def check_port(host: str, port: int, *, profile: str) -> Finding:
    """Whether the engine's HTTP port is free: SGLang finds out only after the whole start, and then hangs."""
    of = f" of profile {profile}" if profile else ""
    data = {"host": host, "port": port, "profile": profile}
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            pid = listener(port)
            who = f" by pid {pid}" if pid else ""
            todo = "stop it, attach to it (console attach URL), or give the profile another port"
            return fail("port", f"port {port}{of} is taken{who}", todo, **data, pid=pid)
        reason = error.strerror or str(error)
        return fail("port", f"port {port}{of} cannot be bound on {host}: {reason}", "change host or port", **data)
    return ok("port", f"port {port}{of} is free on {host}", **data)


def listener(port: int) -> int | None:
    """The process that listens on a port, if it is one we may look into."""
    inodes = set()
    for table in TCP_TABLES:
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if len(fields) > 9 and fields[3] == LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    inodes.add(f"socket:[{fields[9]}]")
    if not inodes:
        return None
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        with contextlib.suppress(OSError):
            for entry in os.scandir(folder / "fd"):
                with contextlib.suppress(OSError):
                    if os.readlink(entry.path) in inodes:  # noqa: PTH115 - thousands of them
                        return int(folder.name)
    return None
