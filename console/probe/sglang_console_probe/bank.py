"""Drafters kept beside the one that is loaded: going back to one of them is a copy, not a read."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Resident:
    """A drafter's weights on this rank."""

    path: str
    fingerprint: str
    """Of the files they came from: a folder that has changed since is read anew."""
    checksum: str
    saved: list[tuple[Any, Any]]

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(copy.numel() * copy.element_size() for _, copy in self.saved)


class Bank:
    """At most so many drafters and so many bytes; the one used longest ago goes first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Resident] = OrderedDict()

    @property
    def paths(self) -> list[str]:
        """What is kept, the newest last."""
        return list(self._kept)

    def get(self, path: str, fingerprint: str) -> Resident | None:
        """A drafter whose files are still what they were."""
        found = self._kept.get(path)
        return found if found is not None and found.fingerprint == fingerprint else None

    def put(self, resident: Resident, most: int, most_bytes: int | None) -> None:
        """Keep one, and let go of what the limits do not allow.

        Args:
            resident: the newest.
            most: drafters; 0 keeps none.
            most_bytes: bytes on this rank; ``None`` sets no limit.
        """
        self._kept.pop(resident.path, None)
        self._kept[resident.path] = resident
        while self._kept and (len(self._kept) > most or (most_bytes is not None and self._bytes() > most_bytes)):
            self._kept.popitem(last=False)

    def drop(self, path: str) -> None:
        """Let go of one."""
        self._kept.pop(path, None)

    def _bytes(self) -> int:
        return sum(resident.size for resident in self._kept.values())
