"""``key=value`` as an operator types it, read by the type of the key."""

from __future__ import annotations

import tomllib
import typing
from collections.abc import Iterable
from typing import Any

from console.errors import ConsoleError, ExitCode
from profiles import edit, keys, read
from profiles.schema import Profile


def assigned(profile: Profile, assignments: Iterable[str]) -> Profile:
    """The profile with the assignments made.

    ``engine.tp=8``, ``engine.model=/models/x`` and ``speculation.candidate_steps=0,1,3`` need no quotes; a value as TOML
    writes it will do as well. An empty value sets the key back to its default.

    Raises:
        ConsoleError: an unknown key (with the nearest), or a value that the key cannot have.
    """
    data: dict[str, Any] = {}
    for path, value in keys.flat(profile).items():
        _put(data, path, value)
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise ConsoleError(f"{assignment!r} is no assignment", todo="write key=value", code=ExitCode.USAGE)
        path = tuple(part.strip() for part in key.split("."))
        if path[:3] == ("engine", "env", "set"):
            path = ("engine", "env", "set", ".".join(path[3:]))
        _put(data, path, _value(path, text.strip()))
    return read.validate(data, profile.name)


def _put(data: dict[str, Any], path: keys.Path, value: Any) -> None:
    for part in path[:-1]:
        data = data.setdefault(part, {})
        if not isinstance(data, dict):
            raise ConsoleError(f"{keys.shown(path)}: unknown key", code=ExitCode.USAGE)
    if value is edit.GONE:
        data.pop(path[-1], None)
    else:
        data[path[-1]] = value


def _value(path: keys.Path, text: str) -> Any:
    if not text:
        return edit.GONE
    kind = str if path[:3] == ("engine", "env", "set") else keys.known().get(path)
    if kind is str:
        return _toml(text) if text[0] in "'\"" else text
    if typing.get_origin(kind) is tuple and not text.startswith("["):
        items = [item.strip() for item in text.split(",") if item.strip()]
        texts = typing.get_args(kind)[0] is str
        return [item if texts else _toml(item) for item in items]
    return _toml(text)


def _toml(text: str) -> Any:
    """One value in TOML's writing; what is none stays text, and the key's type decides."""
    try:
        found = tomllib.loads(f"value = {text}\n")
    except (ValueError, RecursionError):
        return text
    return found["value"] if len(found) == 1 else text
