"""Published accept_len of drafters, to hold one's own against: :file:`data/drafters.toml`."""

from __future__ import annotations

import functools
import importlib.resources
import tomllib

import msgspec

from console import economics


class Published(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One drafter's figures."""

    name: str
    depth: int
    """Draft steps they were measured at."""
    source: str
    accept_len: dict[str, float]
    """By set of prompts, bonus token included."""

    @property
    def span(self) -> tuple[float, float]:
        """The lowest and the highest."""
        return min(self.accept_len.values()), max(self.accept_len.values())

    def accuracy(self, accept_len: float) -> float | None:
        """The constant accuracy a token that gives an accept_len at this drafter's depth (F7)."""
        return economics.accuracy_for(accept_len, self.depth)


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    drafter: tuple[Published, ...]


@functools.cache
def published() -> tuple[Published, ...]:
    """Every one, in the file's order."""
    text = importlib.resources.files("console.data").joinpath("drafters.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), _File).drafter
