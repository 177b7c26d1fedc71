"""Editing a profile in a text editor: a draft beside the profiles, checked when the editor ends, kept while it is not valid."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from console.errors import ConsoleError, ExitCode
from profiles import read, store, write
from profiles.schema import Profile

EDITORS = ("nano", "vim", "vi")
"""Tried in turn where neither VISUAL nor EDITOR is set."""


@dataclass(frozen=True, slots=True)
class Draft:
    """One profile being edited."""

    name: str
    path: Path
    """The file the editor gets. Hidden, so that no listing takes it for a profile."""
    target: Path
    """The operator's own file, which need not exist yet."""
    before: str | None
    """Text of the target when the draft was made; ``None``: there was none."""
    resumed: bool = False
    """It was left behind by an earlier edit."""


def editor() -> list[str]:
    """The operator's editor with its arguments.

    Raises:
        ConsoleError: there is none.
    """
    for variable in ("VISUAL", "EDITOR"):
        with contextlib.suppress(ValueError):
            if words := shlex.split(os.environ.get(variable, "")):
                return words
    found = next((path for name in EDITORS if (path := shutil.which(name))), None)
    if found is None:
        raise ConsoleError("there is no editor", todo="set EDITOR", code=ExitCode.USAGE)
    return [found]


def begin(profile: str) -> Draft:
    """The draft of a profile: the one that was left behind, else a copy. A built-in profile becomes a copy of yours.

    Raises:
        ConsoleError: there is no such profile, or the folder cannot be written.
    """
    source, origin = store.locate(profile)
    name = source.stem
    target = source.absolute() if origin == store.FILE else store.folder() / f"{name}{store.SUFFIX}"
    path = target.parent / f".{name}.draft{store.SUFFIX}"
    before = read.text_of(read.read_bytes(target), str(target)) if target.exists() else None
    with write.locked(store.folder()):
        resumed = path.exists()
        if not resumed:
            text = before if before is not None else read.text_of(read.read_bytes(source), str(source))
            write.replace(path, text)
            path.chmod(0o600)
    return Draft(name, path, target, before, resumed)


def text_of(draft: Draft) -> str:
    """What stands in the draft now."""
    return read.text_of(read.read_bytes(draft.path), str(draft.path))


def check(draft: Draft) -> Profile:
    """The profile in the draft.

    Raises:
        ConsoleError: it is none; one line with the key, and where the text is kept.
    """
    try:
        profile = read.parse(text_of(draft), draft.name, draft.name)
        if profile.name != draft.name:
            raise read.bad(
                draft.name, f"name: {profile.name!r} is another profile's", todo="use: console profiles save"
            )
    except ConsoleError as error:
        raise ConsoleError(
            error.line, todo=f"nothing is lost: your text is in {draft.path}", code=ExitCode.USAGE
        ) from error
    return profile


def finish(draft: Draft) -> Path | None:
    """Put a draft in the profile's place.

    Returns:
        The profile's file; ``None`` when nothing was changed.

    Raises:
        ConsoleError: it is not valid, cannot be written, or somebody else changed the profile meanwhile; the draft is kept.
    """
    check(draft)
    text = text_of(draft)
    with write.locked(store.folder()):
        now = read.text_of(read.read_bytes(draft.target), str(draft.target)) if draft.target.exists() else None
        if now != draft.before:
            raise ConsoleError(
                f"{draft.target} was changed by somebody else", todo=f"nothing is lost: your text is in {draft.path}"
            )
        unchanged = text == (now if now is not None else _original(draft))
        if not unchanged:
            write.replace(draft.target, text)
        draft.path.unlink(missing_ok=True)
    return None if unchanged else draft.target


def drop(draft: Draft) -> None:
    """Leave the profile as it is, and no draft behind."""
    draft.path.unlink(missing_ok=True)


def _original(draft: Draft) -> str:
    """The text a new profile of the operator's was copied from."""
    source = store.path(draft.name)
    return read.text_of(read.read_bytes(source), str(source))
