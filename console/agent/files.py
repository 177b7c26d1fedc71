"""Small files that are replaced as a whole and that nobody else may read."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def replace_text(path: Path, text: str | bytes) -> None:
    """Replace a file, mode 0600: a reader sees the old text or the new one, and so does a machine that lost power.

    Raises:
        OSError: it could not be written; the old file stands.
    """
    data = text.encode() if isinstance(text, str) else text
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise
