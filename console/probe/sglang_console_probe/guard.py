"""Guarded hooks: whatever goes wrong in the probe turns that hook off and leaves SGLang's own code running."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger("sglang_console_probe")

ON = "on"
WHY_LIMIT = 300
"""Characters of a reason in the feed."""


def reason(error: BaseException) -> str:
    """An exception as one short line."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= WHY_LIMIT else text[: WHY_LIMIT - 1] + "…"


class Hook:
    """One thing the probe does inside the engine, and whether it still does it.

    Args:
        name: as the feed's ``hooks`` has it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.on = False
        self.state = "off: not attached"
        self.trap = False
        """A test asked for an exception at the next call."""

    def enable(self) -> None:
        """It works from now on."""
        self.on, self.state = True, ON

    def disable(self, why: str) -> None:
        """It is not possible here."""
        self.on, self.state = False, f"off: {why}"

    def failed(self, error: BaseException) -> None:
        """It went wrong: off for good, said once in the engine's log."""
        self.disable(reason(error))
        logger.warning("The console's probe turned its hook %r off: %s", self.name, reason(error), exc_info=error)

    def spring(self) -> None:
        """Raise when a test asked for it."""
        if self.trap:
            self.trap = False
            raise RuntimeError("injected fault")


def wrap_method(
    owner: Any,
    name: str,
    hook: Hook,
    before: Callable[..., Any],
    after: Callable[[Any, Any], None],
) -> None:
    """Wrap a bound method of one instance, which leaves its class and its module alone.

    Args:
        owner: the instance.
        name: the method.
        hook: turned off by an exception in ``before`` or ``after``.
        before: gets the call's arguments; what it returns goes to ``after``.
        after: gets that and the method's result.

    Raises:
        AttributeError: there is no such method.
    """
    original = getattr(owner, name)

    @functools.wraps(original)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        if not hook.on:
            return original(*args, **kwargs)
        try:
            token = before(*args, **kwargs)
        except Exception as error:
            hook.failed(error)
            return original(*args, **kwargs)
        result = original(*args, **kwargs)
        try:
            after(token, result)
        except Exception as error:
            hook.failed(error)
        return result

    setattr(owner, name, guarded)
