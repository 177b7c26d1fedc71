"""The console's probe: a plugin of SGLang's own plugin framework (entry-point group ``sglang.srt.plugins``).

It runs inside SGLang's scheduler processes: it counts acceptance, times the stages of a cycle, changes depth and
drafter live, and publishes all of it (docs/architecture.md, "The probe's feed and commands"). It imports only what
SGLang has, does nothing unless ``SGLANG_CONSOLE_PROBE_DIR`` names a folder, and an error in it disables the probe,
never the server.
"""

from __future__ import annotations

import logging
import os

VERSION = "0.1.0"
DIRECTORY_VARIABLE = "SGLANG_CONSOLE_PROBE_DIR"

logger = logging.getLogger(__name__)


def register() -> None:
    """Entry point: called once by every SGLang process that loads plugins. Never raises."""
    folder = os.environ.get(DIRECTORY_VARIABLE, "")
    if not folder:
        return
    try:
        from sglang_console_probe.role import is_scheduler

        if is_scheduler():
            from sglang_console_probe.hooks import install

            install(folder)
    except Exception:
        logger.exception("The console's probe is off; the server is not affected")
