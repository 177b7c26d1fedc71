"""What runs now as a profile, and how far a change of profile reaches: nothing, live, or a restart. Pure."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec

from console.agent.configuration import Configuration
from console.errors import ConsoleError, ExitCode
from profiles import store
from profiles.schema import Profile


class Reach(enum.StrEnum):
    """What a changed key asks of the engine."""

    NOTHING = "no change of the engine"
    DEPTH = "depth"
    DRAFTER = "drafter"
    RESTART = "restart"


NOTHING = (
    *("description", "targets.", "guard.", "alarm.", "auto_depth.", "measured.", "speculation.drafters"),
    *("engine.stop_timeout_s", "engine.start_timeout_s", "engine.restart"),
)
"""Keys that only the console reads."""


def as_profile(configuration: Configuration) -> Profile:
    """The profile that would start what runs, live overrides included; its name stays."""
    profile, spec = configuration.profile, configuration.profile.speculation
    if configuration.drafter and configuration.drafter != spec.drafter:
        spec = msgspec.structs.replace(spec, drafter=configuration.drafter, revision="")
    if configuration.depth is not None and configuration.depth != spec.steps:
        width = spec.draft_tokens if spec.draft_tokens is None or (spec.topk or 1) > 1 else configuration.depth + 1
        spec = msgspec.structs.replace(spec, steps=configuration.depth, draft_tokens=width)
    return msgspec.structs.replace(profile, speculation=spec)


class Step(msgspec.Struct, frozen=True):
    """One changed key."""

    key: str
    before: object
    after: object
    reach: Reach


def steps(running: Profile, wanted: Profile) -> tuple[Step, ...]:
    """Every key that differs, and what it asks of the engine."""
    return tuple(Step(key, old, new, _reach(key, wanted)) for key, old, new in store.differences(running, wanted))


def _reach(key: str, wanted: Profile) -> Reach:
    if key.startswith(NOTHING):
        return Reach.NOTHING
    chain = (wanted.speculation.topk or 1) == 1
    if key == "speculation.steps" or (key == "speculation.draft_tokens" and chain):
        return Reach.DEPTH if wanted.speculation.steps is not None else Reach.RESTART
    if key in ("speculation.drafter", "speculation.revision"):
        return Reach.DRAFTER if wanted.speculation.drafter else Reach.RESTART
    return Reach.RESTART


def why_restart(
    found: Sequence[Step], wanted: Profile, *, depth_why: str, swap_why: str, prebuilt: Sequence[int]
) -> str:
    """Why a set of changes takes a restart; empty when all of it can be done on the living engine.

    Args:
        found: the changes.
        wanted: the profile they lead to.
        depth_why: why depth cannot be changed live; empty when it can.
        swap_why: why the drafter cannot.
        prebuilt: depths that can be set live.
    """
    keys = [step.key for step in found if step.reach is Reach.RESTART]
    if keys:
        return f"{keys[0]}{f' and {len(keys) - 1} more' if len(keys) > 1 else ''} cannot change while the engine runs"
    reaches = {step.reach for step in found}
    if Reach.DEPTH in reaches:
        if depth_why:
            return f"depth: {depth_why}"
        if wanted.speculation.steps not in prebuilt:
            return f"depth {wanted.speculation.steps} was not prebuilt (prebuilt: {', '.join(map(str, prebuilt)) or 'none'})"
    if Reach.DRAFTER in reaches and swap_why:
        return f"drafter: {swap_why}"
    return ""


def nothing_runs() -> ConsoleError:
    """The answer where there is nothing to compare with."""
    return ConsoleError("no engine of this rig runs", todo="console run PROFILE", code=ExitCode.UNREACHABLE)
