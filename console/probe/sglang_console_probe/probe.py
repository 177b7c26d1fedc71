"""The probe of one scheduler: attached when everything is built, just before the event loop."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from sglang_console_probe import VERSION
from sglang_console_probe.acceptance import Acceptance
from sglang_console_probe.agree import Agreement
from sglang_console_probe.commands import Commands
from sglang_console_probe.counters import StageCounter
from sglang_console_probe.depth import Depth
from sglang_console_probe.drafter import inner_worker
from sglang_console_probe.environment import own_environment
from sglang_console_probe.faults import Faults, allowed
from sglang_console_probe.guard import Hook
from sglang_console_probe.place import Place, place_of
from sglang_console_probe.publish import Publisher
from sglang_console_probe.rounds import Rounds
from sglang_console_probe.stages import STAGES, Stages
from sglang_console_probe.swap import Outcome, Swap

logger = logging.getLogger("sglang_console_probe")

SCHEMA = 1


class Probe:
    """Everything the probe has in one scheduler process.

    Args:
        scheduler: SGLang's, fully built.
        folder: shared with the agent.
    """

    def __init__(self, scheduler: Any, folder: Path) -> None:
        self._folder = folder
        self.place: Place = place_of(scheduler)
        self.worker = getattr(scheduler, "draft_worker", None)
        self.rounds = Rounds(self.worker)
        self.acceptance = Acceptance(self.rounds, self.worker, _topk(self.worker))
        self.stages = self._stages_of(scheduler)
        self.times = {stage: StageCounter() for stage in STAGES.values()}
        live_why = self.place.live_why or ("" if self.worker is not None else "the engine runs without a drafter")
        self.depth = Depth(self.worker, live_why)
        self.swap = Swap(scheduler, live_why, synchronizer(scheduler))
        operations: dict[str, Callable[..., Any]] = {
            "ping": self._ping,
            "depth": self._depth,
            "stage": self._stage,
            "unstage": self._unstage,
            "swap": self._swap,
        }
        self.commands = Commands(folder, self.place, operations)
        self.publisher = Publisher(folder, self.place.rank, self._message)
        self.attached = Hook("attach")
        listed = (
            self.attached,
            self.acceptance.hook,
            self.rounds.hook,
            self.stages.hook,
            self.commands.hook,
            self.publisher.hook,
        )
        self.hooks = {hook.name: hook for hook in listed}
        if allowed():
            operations["fault"] = Faults(self.place.rank, self.hooks, self.stages, self.swap).execute
        self._environment = own_environment()
        self._sglang = sglang_version()

    def _stages_of(self, scheduler: Any) -> Stages:
        timer = getattr(getattr(scheduler, "metrics_reporter", scheduler), "forward_pass_device_timer", None)
        return Stages(self.worker, inner_worker(scheduler), timer, cuda=_on_cuda(scheduler))

    def attach(self, missing: dict[str, str]) -> None:
        """Start everything that is possible here.

        Args:
            missing: hooks that this SGLang does not have, and why.
        """
        no_drafter = "the engine runs without speculation"
        if self.worker is None:
            for hook in (self.acceptance.hook, self.rounds.hook, self.stages.hook):
                hook.disable(no_drafter)
        else:
            self.rounds.install()
            self.stages.install()
            self.acceptance.hook.enable()
        self.commands.hook.enable()
        for name, why in missing.items():
            self.hooks[name].disable(why)
        self.attached.enable()
        self.publisher.start()
        states = ", ".join(f"{name} {hook.state}" for name, hook in self.hooks.items())
        logger.info("The console's probe %s is attached to rank %s: %s", VERSION, self.place.rank, states)

    # ------------------------------------------------------------------------------------------ commands

    def _ping(self, *_: Any) -> Outcome:
        return Outcome(ok=True, message="pong", checksum=self.swap.checksum)

    def _depth(self, payload: dict[str, Any], number: int, agreement: Agreement) -> Outcome:  # noqa: ARG002 - one shape
        if self.place.live_why:
            return self._refused()
        begun = time.perf_counter()
        wanted, why = payload.get("depth"), self.swap.refuse.get("depth", "")
        try:
            self.depth.check(wanted)
        except Exception as error:
            why = str(error)
        verdict = agreement.reach("depth", why, str(wanted))
        seconds = {"total": round(time.perf_counter() - begun, 6)}
        if not verdict.go:
            return Outcome(ok=False, message=verdict.why, seconds=seconds, checksum=self.swap.checksum)
        self.depth.pin(wanted)
        self.rounds.pinned = wanted is not None
        self.rounds.interrupt()
        self.publisher.soon()
        message = "depth is SGLang's own choice again" if wanted is None else f"depth {wanted} is pinned"
        return Outcome(ok=True, message=message, seconds=seconds, checksum=self.swap.checksum)

    def _refused(self) -> Outcome:
        """Without a vote: not all schedulers of this layout take a command in the same iteration."""
        return Outcome(ok=False, message=self.place.live_why)

    def _stage(self, payload: dict[str, Any], number: int, agreement: Agreement) -> None:  # noqa: ARG002 - one shape
        def answer(outcome: Outcome) -> None:
            with suppress(OSError):
                self.commands.answer(number, outcome)

        self.swap.stage(payload.get("path"), answer)

    def _unstage(self, *_: Any) -> Outcome:
        self.swap.unstage()
        return Outcome(ok=True, message="let go", checksum=self.swap.checksum)

    def _swap(self, payload: dict[str, Any], number: int, agreement: Agreement) -> Outcome:  # noqa: ARG002 - one shape
        if self.place.live_why:
            return self._refused()
        options = payload.get("options")
        try:
            return self.swap.commit(payload.get("path"), options if isinstance(options, dict) else {}, agreement)
        finally:
            self.rounds.interrupt()
            self.publisher.soon()

    # ------------------------------------------------------------------------------------------ message

    def _message(self, seq: int) -> dict[str, Any]:
        """Called in the publisher's thread, which owns all counters."""
        if self.acceptance.drain():
            for counter in self.times.values():
                counter.clear_window()
        queue = self.stages.queue
        while queue:
            span = queue.popleft()
            self.times[span.stage].add(span.batch, span.ms)
        stages = {name: counter.message() for name, counter in self.times.items()} if self.stages.hook.on else {}
        stages["cycle"] = self.acceptance.cycle.message()
        return {
            **identity(self.place, self._sglang),
            "seq": seq,
            "hooks": {name: hook.state for name, hook in self.hooks.items()},
            "capabilities": {
                "depth_live": not self.depth.why and self.commands.hook.on,
                "depth_why": self.depth.why or self._commands_why(),
                "candidate_steps": self.depth.steps,
                "swap_live": not self.swap.why and self.commands.hook.on,
                "swap_why": self.swap.why or self._commands_why(),
            },
            "depth": self.depth.current,
            "pinned": self.depth.pinned,
            "adaptive": self.depth.adaptive,
            "timing": {"by": self.stages.clock.name, "every": self.stages.clock.every, "lost": self.acceptance.lost},
            "stages": stages,
            "acceptance": self.acceptance.counter.message(),
            "switches": list(self.rounds.switches),
            "drafter": {
                "path": self.swap.path,
                "checksum": self.swap.checksum,
                "since_s": round(self.swap.since_s, 3),
                "resident": self.swap.resident,
            },
            "environment": self._environment,
        }

    def _commands_why(self) -> str:
        return "" if self.commands.hook.on else f"commands: {self.commands.hook.state}"


def identity(place: Place, sglang: str) -> dict[str, Any]:
    """Who says it."""
    return {
        "schema": SCHEMA,
        "rank": place.rank,
        "tp": place.ranks,
        "pid": os.getpid(),
        "at_s": round(time.time(), 3),
        "sglang": sglang,
        "probe": VERSION,
    }


def sglang_version() -> str:
    """Of the SGLang around."""
    try:
        import sglang

        return str(sglang.__version__)
    except Exception:
        return ""


def synchronizer(scheduler: Any) -> Callable[[], None]:
    """Waits for everything the device has been given; only a swap does that."""
    if not _on_cuda(scheduler):
        return lambda: None
    import torch

    return torch.cuda.synchronize


def _on_cuda(scheduler: Any) -> bool:
    import torch

    return str(getattr(scheduler, "device", "cuda")).startswith("cuda") and torch.cuda.is_available()


def _topk(worker: Any) -> int:
    topk = getattr(worker, "topk", 1)
    return topk if isinstance(topk, int) else 1
