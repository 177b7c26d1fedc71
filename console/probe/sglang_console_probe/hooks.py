"""The hooks that SGLang's registry puts into its scheduler.

Everything else is wrapped on instances when the probe attaches.
"""

from __future__ import annotations

import importlib
import logging
from pathlib import Path
from typing import Any

from sglang_console_probe.faults import fail_attach
from sglang_console_probe.guard import reason

logger = logging.getLogger("sglang_console_probe")

SCHEDULER = "sglang.srt.managers.scheduler.Scheduler"
PROCESSOR = "sglang.srt.managers.scheduler_components.batch_result_processor.SchedulerBatchResultProcessor"
RESOLVE = (
    f"{PROCESSOR}._resolve_spec_v2_tokens",
    f"{SCHEDULER}._resolve_spec_overlap_tokens",
    f"{SCHEDULER}._resolve_spec_overlap_token_ids",
)
"""Where a verify result is read: since 0.5.13, in 0.5.12, in 0.5.11."""


class State:
    """What the hooks of this process share."""

    folder = Path()
    probe: Any = None
    missing: dict[str, str] = {}  # noqa: RUF012 - one per process


def install(folder: str) -> None:
    """Register the hooks of a scheduler process."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    State.folder = Path(folder)
    if exists(f"{SCHEDULER}.run_event_loop"):
        HookRegistry.register(f"{SCHEDULER}.run_event_loop", before_event_loop, HookType.BEFORE)
    else:
        logger.warning("The console's probe is off: this SGLang's scheduler has no run_event_loop")
        return
    if exists(f"{SCHEDULER}.set_internal_state"):
        HookRegistry.register(f"{SCHEDULER}.set_internal_state", around_set_internal_state, HookType.AROUND)
    else:
        State.missing["commands"] = "this SGLang's scheduler has no set_internal_state"
    resolve = next((target for target in RESOLVE if exists(target)), None)
    if resolve is not None:
        HookRegistry.register(resolve, around_resolve, HookType.AROUND)
    else:
        State.missing["acceptance"] = "this SGLang reads verify results where the probe does not know it"


def exists(target: str) -> bool:
    """Whether a method is there; the registry only logs a traceback when it is not."""
    module, owner, name = target.rsplit(".", 2)
    try:
        return hasattr(getattr(importlib.import_module(module), owner), name)
    except (ImportError, AttributeError):
        return False


def before_event_loop(scheduler: Any, *_: Any, **__: Any) -> None:
    """Attach: graphs are captured, nothing runs yet."""
    try:
        fail_attach()
        from sglang_console_probe.probe import Probe

        probe = Probe(scheduler, State.folder)
        probe.attach(State.missing)
        State.probe = probe
    except Exception as error:
        State.probe = None
        logger.warning("The console's probe is off; the server is not affected: %s", reason(error), exc_info=error)
        _say_off(scheduler, error)


def _say_off(scheduler: Any, error: Exception) -> None:
    """Publish nothing but why there is nothing."""
    try:
        from sglang_console_probe.place import place_of
        from sglang_console_probe.probe import identity, sglang_version
        from sglang_console_probe.publish import Publisher

        why = f"the probe did not attach: {reason(error)}"
        capabilities = {
            "depth_live": False,
            "depth_why": why,
            "swap_live": False,
            "swap_why": why,
            "candidate_steps": [],
        }
        said = {"hooks": {"attach": f"off: {reason(error)}"}, "capabilities": capabilities}
        place, version = place_of(scheduler), sglang_version()

        def compose(seq: int) -> dict[str, Any]:
            return {**identity(place, version), "seq": seq, **said}

        Publisher(State.folder, place.rank, compose).start()
    except Exception:
        logger.warning("The console's probe cannot say that it is off", exc_info=True)


def around_set_internal_state(original: Any, *args: Any, **kwargs: Any) -> Any:
    """The command channel."""
    probe = State.probe
    return original(*args, **kwargs) if probe is None else probe.commands.around(original, args, kwargs)


def around_resolve(original: Any, *args: Any, **kwargs: Any) -> Any:
    """Acceptance."""
    probe = State.probe
    return original(*args, **kwargs) if probe is None else probe.acceptance.around(original, args, kwargs)
