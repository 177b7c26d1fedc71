"""The environment of the engine's launcher from /proc, masked, beside what the profile asked and the workers report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from console import environment
from console.engine.secrets import mask_environment
from profiles.schema import Profile


def launcher(pid: int, names: frozenset[str], proc: Path = Path("/proc")) -> dict[str, str] | None:
    """The speed-relevant environment a process was started with, masked; ``None`` when it cannot be read. Blocks.

    Args:
        pid: the launcher; its workers' files are wiped by their process titles.
        names: further variables to look for.
        proc: root of the process file system.
    """
    try:
        raw = (proc / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    found = {}
    for entry in raw.decode(errors="replace").split("\0"):
        name, equals, value = entry.partition("=")
        if equals and (name.startswith(environment.PREFIXES) or name in names):
            found[name] = value
    return mask_environment(found)


def matrix(
    profile: Profile | None,
    pid: int | None,
    reported: Mapping[int | None, Mapping[str, str]],
    *,
    probe_why: str = "",
    proc: Path = Path("/proc"),
) -> environment.Matrix:
    """What was asked, what the launcher got, what each worker has. Blocks.

    Args:
        profile: of the running engine; ``None`` when somebody else started it.
        pid: of the launcher; ``None`` on another box.
        reported: by rank, what the probes report; other keys are ignored.
        probe_why: why no probe reports.
        proc: root of the process file system.
    """
    asked = profile.engine.env if profile is not None else None
    names = frozenset((*asked.set, *asked.unset, *asked.inherit)) if asked is not None else frozenset()
    found = launcher(pid, names, proc) if pid is not None else None
    workers = {rank: mask_environment(values) for rank, values in reported.items() if rank is not None}
    why = "" if found is not None else "no process of the engine's is on this box" if pid is None else "it is gone"
    return environment.matrix(
        profile=profile.name if profile is not None else "",
        to_set=mask_environment(asked.set) if asked is not None else {},
        unset=asked.unset if asked is not None else (),
        inherit=asked.inherit if asked is not None else (),
        launcher=found,
        workers=workers,
        launcher_why=why,
        workers_why="" if workers else probe_why or "no probe in this engine",
    )
