"""Live depth.

Hold SGLang's adaptive speculation at one of the depths it has built, or give it back to its own policy.
"""

from __future__ import annotations

from typing import Any

from sglang_console_probe.rounds import depth_of


class DepthRefused(Exception):  # noqa: N818 - the name says what happened
    """This depth cannot be had live; nothing was changed."""


class Depth:
    """The adaptive controller of the speculative worker.

    Args:
        worker: the engine's speculative worker.
        live_why: why this layout allows no live change; empty when it does.
    """

    def __init__(self, worker: Any, live_why: str) -> None:
        self._worker = worker
        self._controller: Any = getattr(worker, "adaptive_controller", None)
        self.pinned: int | None = None
        self.why = live_why or self._missing()

    def _missing(self) -> str:
        if self._controller is None:
            return "the engine was started without adaptive tiers (--speculative-adaptive)"
        if not isinstance(getattr(self._controller, "_states", None), dict) or not hasattr(
            self._controller, "_activate"
        ):
            return "this SGLang's adaptive controller is not the one the probe knows"
        return ""

    @property
    def adaptive(self) -> bool:
        """Whether SGLang chooses among prebuilt depths."""
        return self._controller is not None

    @property
    def steps(self) -> list[int]:
        """Depths that are built; a depth that is not would kill the scheduler."""
        if self.why:
            return []
        return sorted(self._controller._states)

    @property
    def current(self) -> int | None:
        """Steps drafted at present."""
        return depth_of(self._worker)

    def check(self, depth: Any) -> None:
        """Whether a depth can be pinned; ``None`` gives it back.

        Raises:
            DepthRefused: it cannot.
        """
        if self.why:
            raise DepthRefused(self.why)
        if depth is None:
            return
        if not isinstance(depth, int) or isinstance(depth, bool):
            raise DepthRefused(f"a depth is a whole number or null, not {depth!r}")
        if depth not in self.steps:
            raise DepthRefused(f"depth {depth} was not built at the start; there are {', '.join(map(str, self.steps))}")

    def pin(self, depth: int | None) -> None:
        """Hold a depth that :meth:`check` let pass, from the next round on; ``None`` gives it back to the policy."""
        policy = self._controller.params
        if hasattr(type(policy), "get_steps_for_batch"):
            self._hold(policy, depth)
        else:
            self._hold_before_0_5_13(depth)
        self.pinned = depth

    @staticmethod
    def _hold(policy: Any, depth: int | None) -> None:
        """The controller asks its policy before each round and after each result: answer in its stead."""
        if depth is None:
            for name in ("get_steps_for_batch", "on_verify_complete"):
                vars(policy).pop(name, None)
            return
        policy.get_steps_for_batch = lambda *_, **__: depth
        policy.on_verify_complete = lambda *_, **__: None

    def _hold_before_0_5_13(self, depth: int | None) -> None:
        """No policy by batch size there.

        The controller switches after a result only, and here between two iterations.
        """
        if depth is None:
            vars(self._controller).pop("on_verify_complete", None)
            return
        self._controller.on_verify_complete = lambda *_, **__: None
        self._controller._activate(depth)
