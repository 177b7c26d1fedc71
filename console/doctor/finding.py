"""What a check found."""

from __future__ import annotations

import enum
from typing import Any

import msgspec


class Status(enum.StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    """Works, with a loss."""
    FAIL = "fail"
    """A launch would not work."""


class Finding(msgspec.Struct, frozen=True, omit_defaults=False):
    """One line for the operator, and the same as data for a program."""

    id: str
    status: Status
    message: str
    todo: str = ""
    data: dict[str, Any] = {}


def ok(check: str, message: str, **data: Any) -> Finding:
    """All is well."""
    return Finding(check, Status.OK, message, data=data)


def warn(check: str, message: str, todo: str, **data: Any) -> Finding:
    """Something is less than it could be."""
    return Finding(check, Status.WARN, message, todo, data)


def fail(check: str, message: str, todo: str, **data: Any) -> Finding:
    """Something would prevent a launch."""
    return Finding(check, Status.FAIL, message, todo, data)


def size_text(size_bytes: float) -> str:
    """Bytes in the unit a person would use."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < 1024:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TiB"
