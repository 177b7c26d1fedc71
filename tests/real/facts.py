"""What the real engine says itself, read without the console: its routes, its log, the process table."""

from __future__ import annotations

import json
import re
import socket
import time
import urllib.request
from pathlib import Path
from typing import Any

DECODE = re.compile(
    r"Decode batch, #running-req: (\d+),.*?accept len: ([\d.]+),.*?gen throughput \(token/s\): ([\d.]+)"
)


def get(url: str, timeout_s: float = 10) -> Any:
    """JSON of a GET route."""
    with urllib.request.urlopen(url, timeout=timeout_s) as response:
        return json.loads(response.read())


def metric(url: str, name: str) -> float | None:
    """The first sample of a metric."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=20) as response:
        found = re.search(rf"^sglang:{name}\{{[^}}]*\}} (\S+)$", response.read().decode(), re.MULTILINE)
    return float(found[1]) if found else None


def decode_accept_lens(log: str) -> list[float]:
    """accept_len of every decode line, oldest first."""
    return [float(match[2]) for match in DECODE.finditer(log)]


def port_is_free(port: int) -> bool:
    """Whether the port can be bound again."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def alive(pids: list[int]) -> list[int]:
    """Those of the processes that still run; a zombie does not."""
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z":
            found.append(pid)
    return found


def gone(pids: list[int], seconds: float = 15) -> list[int]:
    """Wait for the processes to end; those that did not."""
    deadline = time.monotonic() + seconds
    while (left := alive(pids)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left
