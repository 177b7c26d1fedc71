"""Drafters on this disk: the hub cache and the folders a profile names."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

import msgspec

from console.drafters.facts import TargetFacts
from console.drafters.header import UnreadableError
from console.drafters.source import CARD_LIMIT_BYTES, COMMIT, Folder
from console.drafters.subject import Drafter, Subject, read_drafter
from console.drafters.verdict import judge
from console.errors import ConsoleError

MOST_NEIGHBOURS = 64
"""Folders looked at in one place."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One drafter that is here, or that a profile lists and that is not."""

    name: str
    """org/name, or the folder."""
    path: str = ""
    """Empty when it is not on this disk."""
    kind: str = ""
    revision: str = ""
    licence: str = ""
    base_models: tuple[str, ...] = ()
    bytes: int | None = None
    verdict: str = ""
    why: str = ""


def cache_folder() -> Path:
    """Where huggingface_hub keeps models, by its own rules, without importing it."""
    if direct := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return Path(direct)
    home = os.environ.get("HF_HOME")
    if not home:
        home = str(Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    return Path(home).expanduser() / "hub"


def cached_snapshot(repository: str, revision: str = "") -> Path | None:
    """The newest complete-looking snapshot of a repository in the cache."""
    folder = cache_folder() / ("models--" + repository.replace("/", "--"))
    if COMMIT.fullmatch(revision):
        wanted = folder / "snapshots" / revision
        return wanted if (wanted / "config.json").exists() else None
    try:
        commit = (folder / "refs" / (revision or "main")).read_text().strip()
    except OSError:
        commit = ""
    if COMMIT.fullmatch(commit) and (folder / "snapshots" / commit / "config.json").exists():
        return folder / "snapshots" / commit
    found = sorted(folder.glob("snapshots/*/config.json"), key=lambda path: path.stat().st_mtime)
    return found[-1].parent if found else None


def resolve(name: str, revision: str = "") -> Path | None:
    """The folder a drafter's name means on this disk."""
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    repository, _, pinned = name.partition("@")
    return cached_snapshot(repository, pinned or revision) if repository.count("/") == 1 else None


def with_neighbours(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names, and the folders beside and inside those that are folders: drafters are kept and trained side by side."""
    found = dict.fromkeys(names)
    for name in names:
        path = Path(name).expanduser()
        if not path.is_absolute() or not path.is_dir():
            continue
        for place in (path, path.parent):
            with contextlib.suppress(OSError):
                inside = sorted(place.iterdir())[:MOST_NEIGHBOURS]
                found |= dict.fromkeys(str(one) for one in inside if (one / "config.json").is_file())
    return tuple(found)


def catalogue(
    names: tuple[str, ...],
    *,
    target: TargetFacts | None = None,
    running: Drafter | None = None,
    with_cache: bool = True,
) -> tuple[Entry, ...]:
    """Every drafter named, and every EAGLE-3 drafter in the hub cache, with its verdict. A bad one hides no other."""
    entries: dict[str, Entry] = {}
    for name in names:
        path = resolve(name)
        key = str(path.resolve()) if path else name
        if path is None:
            entries.setdefault(key, Entry(name=name, why="not on this disk: pull it"))
        elif key not in entries:
            entries[key] = _entry(name, path, target, running)
    for name, path in _cached() if with_cache else ():
        key = str(path.resolve())
        if key not in entries:
            entry = _entry(name, path, target, running)
            if entry.kind.startswith("EAGLE-3"):
                entries[key] = entry
    return tuple(entries.values())


def _cached() -> list[tuple[str, Path]]:
    try:
        folders = sorted(cache_folder().glob("models--*--*"))
    except OSError:
        return []
    names = [folder.name.removeprefix("models--").replace("--", "/", 1) for folder in folders]
    return [(name, path) for name in names if (path := cached_snapshot(name))]


def _entry(name: str, path: Path, target: TargetFacts | None, running: Drafter | None) -> Entry:
    try:
        files = Folder(path)
        drafter = read_drafter(files)
    except (ConsoleError, OSError) as error:
        return Entry(name=name, path=str(path), verdict="unreadable", why=str(error))
    same = running is not None and running.label == drafter.label
    judgement = judge(Subject(drafter=drafter, target=target, running=running, identical=True if same else None))
    size = sum(file.size_bytes or 0 for file in drafter.weights.files)
    return Entry(
        name=name, path=str(path), kind=str(drafter.facts.kind), revision=drafter.revision, licence=_licence(files),
        base_models=drafter.base_models, bytes=size or None, verdict=judgement.verdict, why=judgement.why,
    )  # fmt: skip


def _licence(files: Folder) -> str:
    try:
        card = files.read("README.md", 0, CARD_LIMIT_BYTES).decode("utf-8", "replace")
    except UnreadableError:
        return ""
    found = (
        re.search(r"^license:[ \t]*([\w.+-]{1,40})", card.split("\n---", 1)[0], re.MULTILINE)
        if card.startswith("---")
        else None
    )
    return found[1] if found else ""
