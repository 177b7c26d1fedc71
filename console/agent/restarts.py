"""Whether an engine that died is launched again, and when: the profile's restart policy, decided without I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from console import rig
from profiles.schema import EngineSection

BY = "restart policy"
"""Who asks for the launches of the policy, in the history."""
FIRST_WAIT_S = 5.0
LONGEST_WAIT_S = 300.0

REPEATING = frozenset(
    {
        # what the profile says and the installation has
        *("bad-arguments", "launch", "missing-module", "broken-import", "jit", "permission", "file-unreadable"),
        # the models
        *("model-missing", "unsupported-model", "quantization", "tensor-parallel", "hub-refused"),
        *("draft-missing", "draft-shape", "draft-class", "draft-backend", "draft-context", "draft-layers"),
        *("draft-vocabulary", "draft-path-forgotten", "draft-tokens-power-of-2", "target-without-eagle3"),
        # the way it speculates
        *("adaptive-config", "adaptive-tier-too-deep", "backend-without-speculation", "speculation-incomplete"),
        *("topk-unsupported",),
        # the box
        *("port-taken", "kv-pool-too-small", "driver", "gpu-unsupported", "no-gpu", "shared-memory", "disk-full"),
    }
)
"""Kinds of failure that the same launch meets again: somebody has to change something first."""


class Decision(NamedTuple):
    """What to do about a death."""

    wait_s: float | None
    """Seconds until it is launched again; ``None``: it is not."""
    attempt: int = 0
    """The how-manieth within the window, 1 is the first."""
    why: str = ""
    """Why it is not; empty when nobody asked for a policy, or it is."""


def decide(
    policy: EngineSection,
    cause: rig.Failure,
    *,
    launches_at_s: Sequence[float],
    now_s: float,
    was_ready: bool,
    by_policy: bool,
    watched: bool,
) -> Decision:
    """Decide about an engine that has died by itself.

    Args:
        policy: of the profile it was launched from.
        cause: why it died.
        launches_at_s: earlier launches by the policy, whatever became of them.
        now_s: the time.
        was_ready: it had generated its first token.
        by_policy: its launch was the policy's own.
        watched: an agent was there when it died.
    """
    if policy.restart == "never":
        return Decision(None)
    if not watched:
        return Decision(None, why="it ended while no agent watched: launch it when you have seen why")
    if not was_ready and not by_policy:
        return Decision(None, why="it had not come up: whoever launched it decides")
    if cause.kind in REPEATING:
        return Decision(None, why=f"the same launch would fail again ({cause.kind}): {cause.advice or cause.message}")
    recent = [at_s for at_s in launches_at_s if now_s - policy.restart_window_s < at_s <= now_s]
    if len(recent) >= policy.restart_limit:
        times = "once" if len(recent) == 1 else f"{len(recent)} times"
        window = f"{policy.restart_window_s:g} s"
        return Decision(None, why=f"it was launched again {times} within {window}: the limit is reached")
    return Decision(backoff_s(len(recent)), len(recent) + 1)


def backoff_s(earlier: int) -> float:
    """Seconds to wait after so many launches within the window: 5, 10, 20, ... 300."""
    return float(min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(earlier, 32)))
