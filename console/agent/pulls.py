"""Downloads from the hub as jobs of the agent: beside the operations, so that a depth can be changed meanwhile.

They outlive the console that asked. When the agent ends they end, too; what came is kept and the next pull goes on from there.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from console.drafters.source import REPOSITORY
from console.engine.logtext import sanitize
from console.errors import ConsoleError, ExitCode

log = logging.getLogger(__name__)

KEPT = 20
BY_CHARS = 80
MOST_AT_ONCE = 2
"""Two share the line; a third would only make all of them later."""
STOP_S = 5.0


class Pull(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One download as it is shown."""

    id: str
    repository: str
    revision: str = ""
    """The commit, once the hub has told it."""
    by: str = ""
    state: str = "running"
    """running, done, failed or cancelled."""
    started_at_s: float = 0.0
    ended_at_s: float | None = None
    file: str = ""
    bytes_done: int = 0
    bytes_total: int | None = None
    rate_bytes_s: float | None = None
    eta_s: float | None = None
    path: str = ""
    """The folder, when it is complete."""
    message: str = ""
    skipped: tuple[str, ...] = ()


class Pulls:
    """The downloads of one agent. Safe to use from several threads.

    Args:
        told: called with (level, text) when one has ended.
        clock: Unix seconds.
    """

    def __init__(
        self, told: Callable[[str, str], None] = lambda _l, _t: None, clock: Callable[[], float] = time.time
    ) -> None:
        self._told = told
        self._clock = clock
        self._lock = threading.Lock()
        self._pulls: dict[str, Pull] = {}
        self._cancels: dict[str, threading.Event] = {}
        self._threads: dict[str, threading.Thread] = {}

    def all(self) -> tuple[Pull, ...]:
        """Oldest first."""
        with self._lock:
            return tuple(self._pulls.values())

    def start(self, repository: str, *, everything: bool = False, by: str = "") -> Pull:
        """Begin one; what can go wrong is told by its state.

        Raises:
            ConsoleError: no repository name, it is being pulled already, or enough are running.
        """
        if not REPOSITORY.fullmatch(repository):
            what = sanitize(repository, limit_chars=120)
            raise ConsoleError(
                f"{what!r} is no hub repository", todo="write it as org/name or org/name@revision", code=ExitCode.USAGE
            )
        with self._lock:
            running = [pull for pull in self._pulls.values() if pull.state == "running"]
            if any(pull.repository.partition("@")[0] == repository.partition("@")[0] for pull in running):
                raise ConsoleError(
                    f"{repository} is being pulled already", todo="wait for it, or cancel it", code=ExitCode.NO
                )
            if len(running) >= MOST_AT_ONCE:
                names = ", ".join(pull.repository for pull in running)
                raise ConsoleError(f"{names} are being pulled", todo="wait for one, or cancel it", code=ExitCode.NO)
            pull = Pull(
                id=uuid.uuid4().hex[:12],
                repository=repository,
                by=sanitize(by, limit_chars=BY_CHARS),
                started_at_s=self._clock(),
            )
            self._pulls[pull.id] = pull
            self._cancels[pull.id] = threading.Event()
            self._forget_old()
            thread = threading.Thread(target=self._run, args=(pull, everything), name=f"pull {repository}", daemon=True)
            self._threads[pull.id] = thread
        thread.start()
        return pull

    def cancel(self, pull_id: str) -> Pull:
        """Stop one at its next piece; what came is kept.

        Raises:
            ConsoleError: there is none of this id that runs.
        """
        with self._lock:
            pull = self._pulls.get(pull_id)
            if pull is None or pull.state != "running":
                raise ConsoleError("no such pull is running", code=ExitCode.NO)
            self._cancels[pull_id].set()
            return pull

    def close(self) -> None:
        """The agent ends."""
        with self._lock:
            for event in self._cancels.values():
                event.set()
            threads = list(self._threads.values())
        deadline = time.monotonic() + STOP_S
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _forget_old(self) -> None:
        ended = [key for key, pull in self._pulls.items() if pull.state != "running"]
        for key in ended[: max(0, len(self._pulls) - KEPT)]:
            for table in (self._pulls, self._cancels, self._threads):
                table.pop(key, None)

    def _set(self, pull_id: str, **changes: Any) -> None:
        with self._lock:
            self._pulls[pull_id] = msgspec.structs.replace(self._pulls[pull_id], **changes)

    def _run(self, pull: Pull, everything: bool) -> None:
        from console.drafters.download import PullCancelledError

        state, level, changes = "failed", "warn", dict[str, Any]()
        try:
            path = self._fetch(pull, everything=everything)
        except PullCancelledError as error:
            state, level, message = "cancelled", "info", error.line
        except ConsoleError as error:
            message = error.line
        except Exception as error:  # a thread that dies in silence would leave it running for ever
            log.exception("pull of %s failed", pull.repository)
            message = f"the agent's own fault: {type(error).__name__}"
        else:
            state, level, message, changes = (
                "done",
                "info",
                f"complete and proven in {path}",
                {"path": str(path), "eta_s": 0.0},
            )
        self._set(pull.id, state=state, message=message, ended_at_s=self._clock(), **changes)
        self._told(level, f"pull of {pull.repository} {state}: {message}")

    def _fetch(self, pull: Pull, *, everything: bool) -> Path:
        from console.drafters import download

        name, _, revision = pull.repository.partition("@")
        plan = download.plan_pull(name, revision, everything=everything)
        self._set(
            pull.id,
            revision=plan.revision,
            bytes_total=plan.bytes_total,
            bytes_done=plan.bytes_here,
            skipped=plan.skipped,
        )

        def report(progress: download.Progress) -> None:
            self._set(
                pull.id,
                file=progress.file,
                bytes_done=progress.bytes_done,
                rate_bytes_s=progress.rate_bytes_s,
                eta_s=progress.eta_s,
            )

        path = download.pull(plan, report, self._cancels[pull.id])
        self._set(pull.id, bytes_done=plan.bytes_total, rate_bytes_s=None)
        return path
