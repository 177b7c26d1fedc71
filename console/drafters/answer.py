"""One check's answer, and the comparison most checks come down to."""

from __future__ import annotations

import msgspec

Value = str | int | float | bool | None


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check's answer. ``drafter`` and ``reference`` are the two values compared."""

    id: str
    ok: bool | None
    severity: str
    """block, warn or info."""
    message: str
    drafter: Value = None
    reference: Value = None
    mendable: bool = False
    """An edit of the container (names, config) would mend it; the weights are good."""


def compare(
    identity: str,
    ours: Value,
    theirs: Value,
    *,
    what: str,
    severity: str = "block",
    unknown: str = "the target is not known",
) -> Check:
    """Equal, different or unknown; ``unknown`` says why the target's value is not there."""
    if ours is None or theirs is None:
        missing = "the drafter's config does not say" if ours is None else unknown
        return Check(
            id=identity, ok=None, severity=severity, message=f"{what}: {missing}", drafter=ours, reference=theirs
        )
    if ours == theirs:
        return Check(id=identity, ok=True, severity=severity, message=f"{what} {ours}", drafter=ours, reference=theirs)
    text = f"{what} {ours}, the target has {theirs}"
    return Check(id=identity, ok=False, severity=severity, message=text, drafter=ours, reference=theirs)
