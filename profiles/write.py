"""Writing a file so that it is whole at every moment, and so that two consoles do not write at once."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from console.errors import ConsoleError

LOCK_WAIT_S = 5.0
LOCK_NAME = ".lock"
NEW_FILE_MODE = 0o644


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; the folder is made when it is missing. A file system without locks goes unlocked.

    Raises:
        ConsoleError: the folder cannot be written, or another console holds the lock for too long.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise unwritable(folder, error) from error
    try:
        _wait(handle, folder)
        yield
    finally:
        os.close(handle)


def _wait(handle: int, folder: Path) -> None:
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in {errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS}:
                return
            if error.errno not in {errno.EAGAIN, errno.EACCES, errno.EINTR}:
                raise unwritable(folder, error) from error
            if time.monotonic() >= deadline:
                raise ConsoleError(
                    f"{folder} is being written by another console", todo="try again in a moment"
                ) from error
            time.sleep(0.02)
        else:
            return


def replace(path: Path, text: str) -> None:
    """Write ``text`` to ``path``: a temporary file beside it, fsync, rename. A link is followed, the file's mode stays.

    Raises:
        ConsoleError: it cannot be written; what was there is untouched.
    """
    path = Path(os.path.realpath(path))
    temporary = ""
    try:
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else NEW_FILE_MODE
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        Path(temporary).replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        if temporary:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
        raise unwritable(path, error) from error


def _sync_folder(folder: Path) -> None:
    """Make the rename itself survive a power cut, where the file system lets a folder be synced."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)


def unwritable(path: Path, error: OSError) -> ConsoleError:
    """The one line for a path that cannot be written."""
    return ConsoleError(f"cannot write {path}", why=error.strerror or str(error), todo="nothing was changed")
