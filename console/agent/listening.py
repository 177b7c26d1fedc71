"""The agent's Unix socket: made 0600, and made again when somebody removes it (a cleaner of temporary files, a hand)."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from console.errors import ConsoleError

if TYPE_CHECKING:
    from aiohttp import web

log = logging.getLogger(__name__)

LOOK_PERIOD_S = 1.0


class Listening:
    """Listens at a path; the rig's lock is held, so whatever else stands there is a dead agent's.

    Args:
        runner: of the application, set up.
        path: of the socket.
        make_folders: makes the folder of the socket when it has gone, too.
    """

    def __init__(self, runner: web.AppRunner, path: Path, make_folders: Callable[[], None]) -> None:
        self._runner = runner
        self._path = path
        self._make_folders = make_folders
        self._site: web.UnixSite | None = None
        self._made: tuple[int, int] | None = None

    async def begin(self) -> None:
        """Listen.

        Raises:
            OSError: the socket cannot be made.
        """
        from aiohttp import web

        self._path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            self._site = web.UnixSite(self._runner, str(self._path))
            await self._site.start()
        finally:
            os.umask(before)
        self._made = self._there()

    async def keep(self) -> None:
        """Listen again whenever the socket's file is not the one that was made; until cancelled."""
        while True:
            await asyncio.sleep(LOOK_PERIOD_S)
            if self._made is not None and self._there() == self._made:
                continue
            try:
                await self._again()
            except (OSError, ConsoleError, RuntimeError) as error:
                log.warning("%s is gone and cannot be made again: %s", self._path, error)
            else:
                log.warning("%s was removed: listening again", self._path)

    def end(self) -> None:
        """Take the socket's file away."""
        self._path.unlink(missing_ok=True)

    async def _again(self) -> None:
        self._made = None
        if self._site is not None:
            site, self._site = self._site, None
            await site.stop()
        self._make_folders()
        await self.begin()

    def _there(self) -> tuple[int, int] | None:
        """Device and inode of what stands at the path."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino
