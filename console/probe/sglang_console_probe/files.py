"""Small files in the shared folder: whole or not there."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

READ_LIMIT_BYTES = 64 * 1024


def _temporary(path: Path) -> Path:
    """A name beside it that nobody else writes to."""
    return path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")


def write_whole(path: Path, body: bytes) -> None:
    """Replace a file atomically.

    Raises:
        OSError: it cannot be written.
    """
    temporary = _temporary(path)
    temporary.write_bytes(body)
    temporary.replace(path)


def create_whole(path: Path, body: bytes) -> bool:
    """Create a file with its content at once, unless it is there already: of many who try, one succeeds.

    Raises:
        OSError: it cannot be written.
    """
    temporary = _temporary(path)
    temporary.write_bytes(body)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    return True


def read_object(path: Path) -> dict[str, Any] | None:
    """A JSON object, or ``None`` while it is not there.

    Raises:
        ValueError: it is too large or holds something else.
        OSError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            body = file.read(READ_LIMIT_BYTES + 1)
    except FileNotFoundError:
        return None
    if len(body) > READ_LIMIT_BYTES:
        raise ValueError(f"{path.name} is larger than {READ_LIMIT_BYTES} bytes")
    found = json.loads(body)
    if not isinstance(found, dict):
        raise ValueError(f"{path.name} holds no JSON object")  # noqa: TRY004 - its content, not its type
    return found
