"""The probe's feed and commands, as docs/architecture.md has them, from inside the simulated engine.

One PUB socket a rank and a file beside it with the newest message; commands arrive as a number through
``/set_internal_state`` and their payload as a file, and every rank answers in a file.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import zmq

from console import __version__
from console.simulate import VERSION
from console.simulate.engine import STAGES, Engine
from console.simulate.model import drafter, fits

RATE_HZ = 4.0
FILE_EVERY = 4
"""Messages to one file write: once a second."""


def checksum(name: str) -> str:
    """A drafter's checksum: a digest of its name, since it has no weights."""
    return hashlib.sha256(name.encode()).hexdigest()[:16]


class Feed:
    """Publishes the counters of every rank. Call :meth:`publish` at :data:`RATE_HZ`."""

    def __init__(self, engine: Engine, folder: Path, pids: list[int]) -> None:
        self._engine = engine
        self._folder = folder
        self._pids = pids
        self._seq = 0
        self._resident = [engine.options.drafter] if engine.options.drafter else []
        self._context = zmq.Context(io_threads=1)
        self._sockets = [self._bind(rank) for rank in range(len(pids))]
        self._environment = {
            key: value for key, value in sorted(os.environ.items()) if key.startswith(("NCCL_", "SGLANG_", "CUDA_"))
        }

    def _bind(self, rank: int) -> zmq.Socket[bytes]:
        path = self._folder / f"probe-{rank}.sock"
        path.unlink(missing_ok=True)
        socket = self._context.socket(zmq.PUB)
        socket.set(zmq.SNDHWM, 8)
        socket.set(zmq.LINGER, 0)
        socket.bind(f"ipc://{path}")
        return socket

    def close(self) -> None:
        """Close the sockets and take their files away."""
        self._context.destroy(linger=0)
        for rank in range(len(self._pids)):
            for suffix in ("sock", "json"):
                (self._folder / f"probe-{rank}.{suffix}").unlink(missing_ok=True)

    def publish(self) -> None:
        """One message a rank; every fourth also goes to the rank's file."""
        self._seq += 1
        shared = self._shared()
        for rank, socket in enumerate(self._sockets):
            body = json.dumps(shared | self._of_rank(rank), separators=(",", ":")).encode()
            try:
                socket.send(body, zmq.NOBLOCK)
                if self._seq % FILE_EVERY == 1:
                    temporary = self._folder / f".probe-{rank}.json"
                    temporary.write_bytes(body)
                    temporary.replace(self._folder / f"probe-{rank}.json")
            except (zmq.ZMQError, OSError):
                continue

    def _of_rank(self, rank: int) -> dict[str, Any]:
        factor = self._engine.rank_factor(rank)
        return {
            "rank": rank,
            "pid": self._pids[rank],
            "stages": {
                stage: self._engine.stages[stage].message(1.0 if stage == "cycle" else factor) for stage in STAGES
            },
        }

    def _shared(self) -> dict[str, Any]:
        engine, options = self._engine, self._engine.options
        tiers = options.tiers
        counters = engine.acceptance
        name = engine.drafter.name if engine.drafter else ""
        timer = "on" if options.device_timer else "off: device timer is off"
        return {
            "schema": 1,
            "simulated": True,
            "tp": options.tp,
            "at_s": round(time.time(), 3),
            "seq": self._seq,
            "sglang": VERSION,
            "probe": __version__,
            "hooks": {"acceptance": "on", "stages": timer, "commands": "on"},
            "capabilities": {
                "depth_live": tiers is not None,
                "depth_why": "" if tiers else "the engine runs without adaptive tiers",
                "candidate_steps": list(tiers.steps) if tiers else [],
                "swap_live": options.speculative,
                "swap_why": "" if options.speculative else "the engine runs without a drafter",
            },
            "depth": engine.depth,
            "pinned": engine.pinned,
            "adaptive": tiers is not None,
            "acceptance": {
                "steps": counters.steps,
                "rounds": counters.rounds,
                "drafted": counters.drafted,
                "accepted": counters.accepted,
                "tries": counters.tries,
                "hits": counters.hits,
            },
            "switches": [list(switch) for switch in engine.switches],
            "drafter": {
                "path": name,
                "checksum": checksum(name) if name else "",
                "since_s": round(engine.drafter_since_s, 3),
                "resident": self._resident,
            },
            "environment": self._environment,
        }

    # ------------------------------------------------------------------------------------------- commands

    def command(self, number: int) -> bool:
        """Execute ``cmd-<n>.json`` and leave each rank's answer beside it; whether every rank agreed."""
        started = time.monotonic()
        try:
            payload = json.loads((self._folder / f"cmd-{number}.json").read_text())
            ok, message = self._execute(payload)
        except (OSError, ValueError) as error:
            ok, message = False, f"cmd-{number}.json: {error}"
        answer = {
            "ok": ok,
            "message": message,
            "seconds": {"total": round(time.monotonic() - started, 4)},
            "checksum": checksum(self._engine.drafter.name) if self._engine.drafter else "",
        }
        for rank in range(len(self._pids)):
            temporary = self._folder / f".ack-{number}-{rank}.json"
            temporary.write_text(json.dumps(answer))
            temporary.replace(self._folder / f"ack-{number}-{rank}.json")
        return ok

    def _execute(self, payload: Any) -> tuple[bool, str]:
        if not isinstance(payload, dict):
            return False, "a command is a JSON object"
        match payload.get("op"):
            case "ping":
                return True, "pong"
            case "depth":
                return self._depth(payload.get("depth"))
            case "stage":
                return True, "nothing to read: a simulated drafter has no weights"
            case "swap":
                return self._swap(payload.get("path"))
            case other:
                return False, f"no command {other!r}"

    def _depth(self, depth: Any) -> tuple[bool, str]:
        tiers = self._engine.options.tiers
        if tiers is None:
            return False, "the engine runs without adaptive tiers"
        if depth is not None and depth not in tiers.steps:
            return False, f"depth {depth} has no prebuilt state; there are {list(tiers.steps)}"
        self._engine.pin(depth)
        return True, f"depth {depth}" if depth is not None else "depth is the policy's again"

    def _swap(self, path: Any) -> tuple[bool, str]:
        engine = self._engine
        if not engine.options.speculative:
            return False, "the engine runs without a drafter"
        if not isinstance(path, str) or not path:
            return False, "a swap names a path"
        if path.startswith("/") and not Path(path).is_dir():
            return False, f"no such folder: {path}"
        if "drafter_wrong_shape" in engine.options.faults or not fits(path):
            return False, "draft checkpoint refused, nothing loaded: hidden_size: checkpoint 4096, serving 7168"
        engine.load_drafter(path)
        if path not in self._resident:
            self._resident.append(path)
        return True, f"loaded {drafter(path).name} on {len(self._pids)} ranks"
