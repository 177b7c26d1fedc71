"""What an engine is to run: a profile and what operators changed on top of it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from console.engine import flags
from profiles.schema import Profile

DEPTH_FLAGS = frozenset({"--speculative-num-steps", "--speculative-num-draft-tokens"})
DRAFTER_FLAGS = frozenset({"--speculative-draft-model-path"})


class Configuration(msgspec.Struct, frozen=True, omit_defaults=True):
    """A profile with the depth and the drafter that were asked for since.

    The profile stays as it was loaded, so that "depth 0" (no speculation) loses neither algorithm nor drafter and the
    way back is known.
    """

    profile: Profile
    depth: int | None = None
    """``None``: the profile's own."""
    drafter: str = ""
    """Empty: the profile's own."""
    fixed: bool = False
    """Launch :attr:`depth` without the prebuilt ones: nothing could hold it against SGLang's own policy."""

    @property
    def name(self) -> str:
        """In the operator's words: the profile and what differs from it."""
        changes = [f"depth {self.depth}"] if self.depth is not None else []
        changes += [f"drafter {self.drafter}"] if self.drafter else []
        return f"{self.profile.name} with {' and '.join(changes)}" if changes else self.profile.name

    def effective(self) -> Profile:
        """The profile to launch."""
        spec, args = self.profile.speculation, self.profile.engine.args
        if self.drafter:
            args = _without(args, DRAFTER_FLAGS)
            named, pinned = split_revision(self.drafter)
            revision = pinned or (spec.revision if named == spec.drafter else "")
            spec = msgspec.structs.replace(spec, drafter=named, revision=revision)
        if self.depth is not None:
            args = _without(args, DEPTH_FLAGS)
            if self.fixed:
                spec = msgspec.structs.replace(spec, candidate_steps=())
            if self.depth == 0 and 0 not in spec.candidate_steps:
                args = tuple(_without(args, _speculative(args)))
                spec = msgspec.structs.replace(
                    spec, algorithm="", drafter="", steps=None, draft_tokens=None, candidate_steps=()
                )
            else:
                width = None if spec.topk in {None, 1} else spec.draft_tokens
                spec = msgspec.structs.replace(spec, steps=self.depth, draft_tokens=width)
        engine = msgspec.structs.replace(self.profile.engine, args=tuple(args))
        return msgspec.structs.replace(self.profile, engine=engine, speculation=spec)


def split_revision(drafter: str) -> tuple[str, str]:
    """``org/name@revision`` in two, as SGLang wants it; a folder stays whole."""
    name, at, revision = drafter.rpartition("@")
    if not at or not revision or drafter.startswith(("/", ".", "~")) or name.count("/") != 1:
        return drafter, ""
    return name, revision


def _speculative(args: Iterable[str]) -> frozenset[str]:
    return frozenset(name for word in args if (name := flags.canonical(word)).startswith("--speculative-"))


def _without(args: Iterable[str], names: frozenset[str]) -> tuple[str, ...]:
    """The arguments without some flags and their values."""
    kept: list[str] = []
    dropping = False
    for word in args:
        name = flags.canonical(word)
        if name:
            dropping = name in names
        if not dropping:
            kept.append(word)
    return tuple(kept)
