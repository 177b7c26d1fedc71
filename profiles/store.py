"""The operator's profiles and the built-in ones: list, load, save.

The operator's are ``profiles/*.toml`` in the config folder; the built-in ones ship with the package and are never
written. A profile of the operator's hides the built-in of the same name. Wherever a profile is named, a path to a
``.toml`` file will do.
"""

from __future__ import annotations

import difflib
import importlib.resources
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from console.errors import ConsoleError, ExitCode
from console.paths import config_dir
from profiles import edit, keys, read, write
from profiles.schema import Profile

SUFFIX = ".toml"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
OWN, BUILTIN, FILE = "yours", "built-in", "file"


@dataclass(frozen=True, slots=True)
class Entry:
    """A profile that can be loaded, and where it comes from."""

    name: str
    origin: str
    """yours, built-in or file."""
    path: Path
    profile: Profile
    hides_builtin: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that holds no profile, in one line."""

    path: Path
    message: str


@dataclass(frozen=True, slots=True)
class Listing:
    """Every profile, and every file that should have been one."""

    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...] = ()


def folder() -> Path:
    """Where the operator's profiles are; it need not exist."""
    return config_dir() / "profiles"


def builtin_folder() -> Path:
    """Where the built-in profiles are."""
    return Path(str(importlib.resources.files("profiles"))) / "builtin"


def listing() -> Listing:
    """The operator's profiles, then the built-in ones that they do not hide. A broken file is a problem, never an end."""
    entries: dict[str, Entry] = {}
    problems: list[Problem] = []
    builtin = _files(builtin_folder(), problems)
    hidden = {path.stem for path in builtin}
    own = [(path, OWN) for path in _files(folder(), problems)]
    for path, origin in [*own, *((path, BUILTIN) for path in builtin)]:
        if path.stem in entries:
            continue
        try:
            profile = _own(path)
        except ConsoleError as error:
            problems.append(Problem(path, error.line))
        else:
            hides = origin == OWN and path.stem in hidden
            entries[path.stem] = Entry(path.stem, origin, path, profile, hides_builtin=hides)
    return Listing(tuple(entries.values()), tuple(problems))


def _files(where: Path, problems: list[Problem]) -> list[Path]:
    """The ``.toml`` files of a folder by name, without hidden ones. A folder that is not there has none."""
    try:
        return sorted(path for path in where.iterdir() if path.suffix == SUFFIX and not path.name.startswith("."))
    except FileNotFoundError:
        return []
    except OSError as error:
        problems.append(Problem(where, f"{where}: cannot be read: {error.strerror or error}"))
        return []


def _own(path: Path) -> Profile:
    """A profile in one of the two folders; its name is the file's."""
    profile = read.readable(path)
    if profile.name != path.stem:
        raise read.bad(
            str(path), f"name: {profile.name!r} is not the file's name", todo=f"write {path.stem!r}, or rename the file"
        )
    return profile


def names() -> tuple[str, ...]:
    """Names that can be loaded, for completion. Never raises: a name is taken from its file, unread."""
    nowhere: list[Problem] = []
    return tuple(sorted({path.stem for where in (folder(), builtin_folder()) for path in _files(where, nowhere)}))


def entry(profile: str | os.PathLike[str]) -> Entry:
    """The profile of a name, or in a ``.toml`` file.

    Raises:
        ConsoleError: there is none (with the nearest name), or its file is broken.
    """
    path, origin = locate(profile)
    found = read.readable(path) if origin == FILE else _own(path)
    return Entry(found.name, origin, path, found, hides_builtin=origin == OWN and _builtin(found.name).is_file())


def load(profile: str | os.PathLike[str]) -> Profile:
    """The profile of a name, or in a ``.toml`` file. Raises as :func:`entry`."""
    return entry(profile).profile


def path(profile: str | os.PathLike[str]) -> Path:
    """The file that :func:`load` would read."""
    return locate(profile)[0]


def locate(profile: str | os.PathLike[str]) -> tuple[Path, str]:
    """The file of a profile and its origin, unread."""
    given = os.fspath(profile)
    if given.endswith(SUFFIX) or os.sep in given:
        return Path(given).expanduser(), FILE
    check_name(given)
    for candidate, origin in ((folder() / f"{given}{SUFFIX}", OWN), (_builtin(given), BUILTIN)):
        if os.path.lexists(candidate):
            return candidate, origin
    near = difflib.get_close_matches(given, names(), n=1)
    hint = f"did you mean {near[0]}?" if near else "see: console profiles list"
    raise ConsoleError(f"there is no profile {given}", todo=hint, code=ExitCode.USAGE)


def check_name(name: str) -> None:
    """Refuse what can be no profile's name."""
    if not NAME.fullmatch(name):
        raise ConsoleError(
            f"{name!r} is no profile name",
            why="it has 1 to 64 letters, digits, '.', '_' or '-' and begins with a letter or digit",
            code=ExitCode.USAGE,
        )


def _builtin(name: str) -> Path:
    return builtin_folder() / f"{name}{SUFFIX}"


def save(
    profile: Profile,
    *,
    based_on: Profile | None = None,
    overwrite: bool = False,
    source: Path | None = None,
    to: Path | None = None,
) -> Path:
    """Write a profile to the operator's folder; comments, order and the keys that did not change stay as they are.

    Args:
        profile: what to save.
        based_on: what was read before it was changed. Only the difference is written, so another console's change to another
            key survives; one to the same key is refused.
        overwrite: without ``based_on``, replace a profile of this name.
        source: the file whose text, with its comments, a new profile starts from; that of ``based_on`` by default.
        to: a file of the operator's own instead of the folder (a profile that was named by path).

    Returns:
        The file written.

    Raises:
        ConsoleError: it exists already, was changed meanwhile, holds a secret or a value out of range, or cannot be written.
    """
    check_name(profile.name)
    read.validate(keys.nested(profile), profile.name)
    target = to or folder() / f"{profile.name}{SUFFIX}"
    if _is_builtin(target):
        raise ConsoleError(f"{target} is built in", todo="save it under your own profiles", code=ExitCode.USAGE)
    with write.locked(folder()):
        if os.path.lexists(target):
            text = _merged(target, profile, based_on, overwrite=overwrite)
        else:
            text = _fresh(target, profile, source or _source(based_on))
        read.parse(text, str(target), target.stem)
        write.replace(target, text)
    return target


def _is_builtin(target: Path) -> bool:
    return Path(os.path.realpath(target.parent)) == Path(os.path.realpath(builtin_folder()))


def _merged(target: Path, profile: Profile, based_on: Profile | None, *, overwrite: bool) -> str:
    """The text of a file that is there, with this profile's changes in it."""
    origin = str(target)
    text = read.text_of(read.read_bytes(target), origin)
    now = read.parse(text, origin, target.stem)
    if based_on is None and not overwrite and now != profile:
        raise ConsoleError(f"{target} exists already", todo="choose another name, or replace it with --force")
    wanted = edit.changes(now if based_on is None or based_on.name != now.name else based_on, profile)
    if based_on is not None and based_on.name == now.name:
        _refuse_conflict(origin, wanted, based_on, now)
    elif based_on is not None and not overwrite:
        raise ConsoleError(f"{target} exists already", todo="choose another name, or replace it with --force")
    return edit.apply(text, wanted, origin, target.stem)


def _refuse_conflict(origin: str, wanted: dict[keys.Path, object], based_on: Profile, now: Profile) -> None:
    """A key that somebody else changed since it was read is not overwritten."""
    before, current = keys.flat(based_on), keys.flat(now)
    for key, value in wanted.items():
        here = current.get(key, edit.GONE)
        if here not in (before.get(key, edit.GONE), value):
            shown = "its default" if here is edit.GONE else repr(here)
            raise ConsoleError(
                f"{origin} was changed by somebody else",
                why=f"{keys.shown(key)} is {shown} now",
                todo="load the profile again and repeat the change",
            )


def _source(based_on: Profile | None) -> Path | None:
    """The file of the profile that a new one comes from, when it is one of the store's."""
    if based_on is None:
        return None
    try:
        return path(based_on.name)
    except ConsoleError:
        return None


def _fresh(target: Path, profile: Profile, source: Path | None) -> str:
    """The text of a new file: that of the profile it comes from, with the changes; comments come along."""
    if source is not None:
        try:
            text = read.text_of(read.read_bytes(source), str(source))
            start = read.parse(text, str(source), source.stem)
        except ConsoleError:
            pass  # a source that broke meanwhile costs its comments, not the save
        else:
            return edit.apply(text, edit.changes(start, profile), str(target), start.name)
    return edit.apply("", keys.flat(profile), str(target))


def rename(old: str, new: str, *, overwrite: bool = False) -> Path:
    """Give one of the operator's profiles another name."""
    found = entry(old)
    if new == found.name:
        return found.path
    if found.origin != OWN:
        raise ConsoleError(f"{old} is {found.origin}", todo="copy it under another name instead", code=ExitCode.USAGE)
    target = save(msgspec.structs.replace(found.profile, name=new), based_on=found.profile, overwrite=overwrite)
    with write.locked(folder()):
        try:
            found.path.unlink()
        except OSError as error:
            raise write.unwritable(found.path, error) from error
    return target


def differences(a: Profile, b: Profile) -> Iterator[tuple[str, object, object]]:
    """Keys in which two profiles differ, with both values as TOML has them (``None``: the default). The name is left out."""
    left, right = keys.flat(a), keys.flat(b)
    for key in dict.fromkeys([*left, *right]):
        if key != ("name",) and left.get(key) != right.get(key):
            yield keys.shown(key), left.get(key), right.get(key)
