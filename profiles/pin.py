"""Pins a repository's revision in a profile, so that what was judged and pulled is what the next launch loads."""

from __future__ import annotations

from pathlib import Path

import msgspec

from console.errors import ConsoleError, ExitCode
from profiles.schema import Profile


def listed(profile: Profile, repository: str) -> bool:
    """Whether the profile names this repository as its drafter or as one to swap to."""
    spec = profile.speculation
    return any(_name(drafter) == repository for drafter in (spec.drafter, *spec.drafters))


def pinned(profile: Profile, repository: str, revision: str) -> Profile:
    """The profile with the revision: in ``speculation.revision`` for its own drafter, behind an @ for the others.

    Raises:
        ConsoleError: it does not name this repository.
    """
    if not listed(profile, repository):
        raise ConsoleError(
            f"profile {profile.name} does not name {repository}",
            todo=f"add it to speculation.drafters: console profiles save {profile.name} speculation.drafter={repository}",
            code=ExitCode.USAGE,
        )
    spec = profile.speculation
    others = tuple(f"{repository}@{revision}" if _name(one) == repository else one for one in spec.drafters)
    if _name(spec.drafter) == repository:
        others = tuple(repository if _name(one) == repository else one for one in spec.drafters)
        spec = msgspec.structs.replace(spec, drafter=repository, revision=revision)
    return msgspec.structs.replace(profile, speculation=msgspec.structs.replace(spec, drafters=others))


def pin(profile_name: str, repository: str, revision: str) -> Path | None:
    """Write it into the operator's profile, comments kept; ``None`` when it is pinned so already.

    Raises:
        ConsoleError: no such profile, it does not name the repository, or it cannot be written.
    """
    from profiles import store

    entry = store.entry(profile_name)
    changed = pinned(entry.profile, repository, revision)
    if changed == entry.profile:
        return None
    return store.save(changed, based_on=entry.profile, to=entry.path if entry.origin == store.FILE else None)


def _name(drafter: str) -> str:
    return drafter.partition("@")[0] if not drafter.startswith(("/", ".", "~")) else drafter
