"""Which of SGLang's processes this is.

Only a scheduler gets hooks: naming a hook's target imports its module, which is heavy.
"""

from __future__ import annotations

import multiprocessing

NOT_SCHEDULERS = ("sglang::detokenizer", "sglang::data_parallel_controller")
"""Titles that these processes give themselves before they load plugins (SGLang 0.5.22 and later)."""


def is_scheduler() -> bool:
    """Whether this process runs, or is about to run, a scheduler.

    The launcher has no multiprocessing parent. A scheduler loads plugins before it sets its title, so every other
    child is one.
    """
    if multiprocessing.parent_process() is None:
        return False
    return not title().startswith(NOT_SCHEDULERS)


def title() -> str:
    """The process title, empty when it cannot be asked."""
    try:
        import setproctitle

        return str(setproctitle.getproctitle())
    except Exception:
        return ""
