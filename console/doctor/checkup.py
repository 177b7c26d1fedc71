"""All checks in their order; one that fails in itself becomes a finding and stops no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.doctor import engine, gpus, places, terminal
from console.doctor.finding import Finding, Status, warn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from profiles.schema import Profile


def checkup(profile: Profile) -> Iterator[Finding]:
    """Findings for a launch of ``profile`` on this box, as they come."""
    port = profile.engine.port
    checks: tuple[tuple[str, Callable[[], Iterable[Finding]]], ...] = (
        ("python", engine.check_self),
        ("profiles", engine.check_profiles),
        ("sglang", lambda: [engine.check_sglang(profile)]),
        ("probe", lambda: engine.check_probe(profile)),
        ("gpu", lambda: gpus.check(needed=engine.needs_gpu(profile))),
        ("terminal", terminal.check),
        ("disk", places.check_space),
        ("permissions", places.check_permissions),
        ("port", lambda: [places.check_port(profile.engine.host, port, profile=profile.name)]),
    )
    for name, check in checks:
        try:
            yield from check()
        except Exception as error:  # noqa: BLE001 - a doctor that dies of one symptom helps nobody
            todo = "tell the console's authors; the other checks are not affected"
            yield warn(name, f"this check failed itself: {type(error).__name__}: {error}", todo)


def is_healthy(findings: Iterable[Finding]) -> bool:
    """Whether nothing would prevent a launch."""
    return all(finding.status is not Status.FAIL for finding in findings)
