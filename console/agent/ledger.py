"""The runs ledger: every baseline and calibration of a rig, one JSON file each, kept until somebody removes it."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import msgspec

from console.agent import files
from console.calibration import Calibration
from console.paths import RigPaths

SUFFIX = ".json"


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run as it stands on disk."""

    id: str
    kind: str
    """baseline or calibrate."""
    by: str
    profile: str
    result: Calibration


def folder(paths: RigPaths) -> Path:
    """Where the runs of a rig are."""
    return paths.dir / "runs"


def write(paths: RigPaths, *, kind: str, by: str, profile: str, result: Calibration) -> Entry:
    """Keep a run. Blocks.

    Raises:
        OSError: the folder cannot be written.
    """
    place = folder(paths)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(result.at_s))
    name, number = f"{stamp}-{kind}", 1
    while (place / (name + SUFFIX)).exists():
        number += 1
        name = f"{stamp}.{number}-{kind}"
    entry = Entry(name, kind, by, profile, result)
    files.replace_text(place / (name + SUFFIX), msgspec.json.format(msgspec.json.encode(entry), indent=1))
    return entry


def read(paths: RigPaths) -> tuple[Entry, ...]:
    """Every run that can be read, oldest first; a damaged file hides no other."""
    found = []
    with contextlib.suppress(OSError):
        for path in sorted(folder(paths).glob(f"*{SUFFIX}")):
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                found.append(msgspec.json.decode(path.read_bytes(), type=Entry))
    return tuple(found)


def newest(paths: RigPaths, *, kind: str, fingerprint: str, drafter: str) -> Entry | None:
    """The last run of a kind that was measured on the rig as it is now."""
    alike = [
        e for e in read(paths) if e.kind == kind and e.result.fingerprint == fingerprint and e.result.drafter == drafter
    ]
    return alike[-1] if alike else None
