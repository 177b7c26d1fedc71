"""A checkpoint as files that can be read in pieces: a folder, or a hub repository by range requests."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Protocol

import msgspec

from console.drafters.header import ReadAt, UnreadableError
from console.errors import ConsoleError, ExitCode

REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}(@[\w./-]{1,120})?")
COMMIT = re.compile(r"[0-9a-f]{40}")
CARD_LIMIT_BYTES = 64 << 10


class File(msgspec.Struct, frozen=True):
    """One file of a checkpoint; the hub tells the sha256 of large ones."""

    name: str
    size_bytes: int | None
    sha256: str = ""


class Checkpoint(Protocol):
    """Where a drafter or target lives."""

    label: str
    """The operator's name of it."""
    path: Path | None
    """The folder, when it is on this disk."""
    revision: str
    """Commit the files belong to; empty when unknown."""
    pinned: bool
    files: tuple[File, ...]

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes of a file from ``offset``."""
        ...

    def base_models(self) -> tuple[str, ...]:
        """``base_model`` of the model card."""
        ...


class Folder:
    """A checkpoint on this disk. Symbolic links of the hub cache are followed."""

    def __init__(self, path: Path) -> None:
        self.path: Path | None = path
        self.folder = path
        self.label = str(path)
        snapshot = path.parent.name == "snapshots" and COMMIT.fullmatch(path.name)
        self.revision = path.name if snapshot else ""
        self.pinned = bool(snapshot)
        try:
            names = sorted(entry.name for entry in os.scandir(path))
        except OSError as error:
            raise ConsoleError(f"cannot read {path}", why=error.strerror or str(error), code=ExitCode.USAGE) from error
        self.files = tuple(File(name, self._size(name)) for name in names)

    def _size(self, name: str) -> int | None:
        try:
            stat = (self.folder / name).stat()
        except OSError:
            return None
        return stat.st_size

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Read a piece of a file.

        Raises:
            UnreadableError: the file cannot be opened or is no regular file.
        """
        path = self.folder / name
        try:
            if not path.is_file():
                raise UnreadableError("missing", f"{name} is missing" if not path.exists() else f"{name} is no file")
            with path.open("rb") as file:
                file.seek(offset)
                return file.read(length)
        except OSError as error:
            raise UnreadableError("unreadable", f"{name}: {error.strerror or error}") from error

    def base_models(self) -> tuple[str, ...]:
        """``base_model`` lines of README.md's front matter."""
        try:
            return base_models_of(self.read("README.md", 0, CARD_LIMIT_BYTES).decode("utf-8", "replace"))
        except UnreadableError:
            return ()


def reader(checkpoint: Checkpoint, name: str) -> ReadAt:
    """The file as a function of offset and length."""
    return lambda offset, length: checkpoint.read(name, offset, length)


def base_models_of(card: str) -> tuple[str, ...]:
    """``base_model`` of a model card's front matter, a string or a list; read as lines, no YAML is evaluated."""
    if not card.startswith("---"):
        return ()
    matter = card.split("\n---", 1)[0]
    found = re.search(r"^base_model:[ \t]*(.*(?:\n[ \t]*-[ \t]*.*)*)", matter, re.MULTILINE)
    if not found:
        return ()
    items = re.split(r"[\n,]", found[1].strip("[] \t"))
    return tuple(name for item in items[:16] if (name := item.strip(" \t-\"'[]")[:200]))


def open_checkpoint(name: str) -> Checkpoint:
    """A folder, or ``org/name[@revision]`` on the hub.

    Raises:
        ConsoleError: no such folder, not a repository name, or the hub says no.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        return Folder(_with_config(path))
    if path.is_file():
        raise ConsoleError(f"{name} is a file", todo="name the folder that holds config.json", code=ExitCode.USAGE)
    if name.startswith(("/", ".", "~")) or not REPOSITORY.fullmatch(name):
        raise ConsoleError(
            f"no such drafter: {name}",
            why="it is neither a folder nor a hub repository (org/name or org/name@revision)",
            code=ExitCode.USAGE,
        )
    from console.drafters.hub import HubCheckpoint

    repository, _, revision = name.partition("@")
    return HubCheckpoint(repository, revision)


def _with_config(path: Path) -> Path:
    """The folder itself; for a training output or a cache folder, say which subfolder is meant."""
    if (path / "config.json").exists():
        return path
    inside = sorted((p.parent for p in path.glob("*/config.json")), key=lambda p: p.stat().st_mtime)
    inside += sorted((p.parent for p in path.glob("snapshots/*/config.json")), key=lambda p: p.stat().st_mtime)
    if inside:
        raise ConsoleError(
            f"{path} has no config.json",
            why=f"{len(inside)} of its folders have one",
            todo=f"name one of them; the newest is {inside[-1]}",
            code=ExitCode.USAGE,
        )
    return path
