"""The profiles as the screens need them; the real ones are in :mod:`profiles.store`, imported when a screen asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from profiles.schema import Profile


@dataclass(frozen=True, slots=True)
class Entry:
    """One profile in the list; ``problem`` says why it cannot be launched."""

    name: str
    description: str = ""
    origin: str = ""
    """Built-in, or the operator's own."""
    problem: str = ""


class Shelf(Protocol):
    """Where profiles come from and go to. Calls read and write small files, in worker threads."""

    def entries(self) -> Sequence[Entry]:
        """All profiles, broken ones with their problem."""

    def load(self, name: str) -> Profile:
        """One profile."""

    def save(self, profile: Profile, based_on: Profile, *, replace: bool) -> str:
        """Write a profile and answer with its path.

        Args:
            profile: what to write.
            based_on: what it was made from; its comments are kept.
            replace: a profile of this name may be replaced.
        """

    def pin(self, name: str, repository: str, revision: str, *, write: bool) -> Sequence[tuple[str, str, str]]:
        """What pinning a pulled revision changes in a profile, as (key, before, after); written when asked.

        Raises:
            ConsoleError: the profile does not name the repository, or cannot be written.
        """


class StoreShelf:
    """The operator's profiles and the built-in ones."""

    def entries(self) -> Sequence[Entry]:
        """All profiles; broken files behind the good ones."""
        from profiles import store

        listing = store.listing()
        good = [Entry(entry.name, entry.profile.description, entry.origin) for entry in listing.entries]
        return [*good, *(Entry(problem.path.name, "", "broken", problem.message) for problem in listing.problems)]

    def load(self, name: str) -> Profile:
        """The profile of a name or of a file."""
        from profiles import store

        return store.load(name)

    def save(self, profile: Profile, based_on: Profile, *, replace: bool) -> str:
        """Write it to the operator's folder."""
        from profiles import store

        if profile.name == based_on.name or not replace:
            return str(store.save(profile, based_on=based_on))
        return str(store.save(profile, overwrite=True))

    def pin(self, name: str, repository: str, revision: str, *, write: bool) -> Sequence[tuple[str, str, str]]:
        """In the operator's folder; a built-in profile becomes a copy there."""
        from profiles import pin, store

        before = store.load(name)
        after = pin.pinned(before, repository, revision)
        if write:
            pin.pin(name, repository, revision)
        return [(key, str(old or "-"), str(new or "-")) for key, old, new in store.differences(before, after)]
