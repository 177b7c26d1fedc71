"""Changing TOML text key by key, so that comments, order and spacing survive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tomlkit
import tomlkit.exceptions
import tomlkit.items

from console.errors import ConsoleError
from profiles import keys, read
from profiles.schema import Profile

GONE = object()
"""The new value of a key that goes back to its default."""


def changes(before: Profile, after: Profile) -> dict[keys.Path, Any]:
    """Keys whose values differ, with the new value or :data:`GONE`."""
    old, new = keys.flat(before), keys.flat(after)
    gone: dict[keys.Path, Any] = {path: GONE for path in old if path not in new}
    return gone | {path: value for path, value in new.items() if path not in old or old[path] != value}


def apply(text: str, wanted: Mapping[keys.Path, Any], origin: str, stem: str = "") -> str:
    """The text with the keys changed, and nothing else.

    Raises:
        ConsoleError: the text is no profile, or cannot be changed without being damaged.
    """
    expected = _tables(text, origin, stem)
    for path, value in wanted.items():
        _set(expected, path, value)
    try:
        document = tomlkit.parse(text)
        for path, value in wanted.items():
            _set(document, path, value)
        changed = tomlkit.dumps(document)
    except (tomlkit.exceptions.TOMLKitError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ConsoleError(
            f"{origin} cannot be changed without damage", why=str(error), todo="edit it by hand"
        ) from error
    if _tables(changed, origin, stem) != _without_empty(expected):
        raise ConsoleError(f"{origin} cannot be changed without damage", todo="edit it by hand")
    return changed


def _tables(text: str, origin: str, stem: str) -> dict[str, Any]:
    found = read.tables(text, origin)
    if stem:
        found.setdefault("name", stem)
    return _without_empty(found)


def _without_empty(table: Mapping[str, Any]) -> dict[str, Any]:
    """The tables without empty ones: an emptied section may keep its header and the comments below it."""
    found = {}
    for key, value in table.items():
        kept = _without_empty(value) if isinstance(value, Mapping) else value
        if not (isinstance(value, Mapping) and not kept):
            found[key] = kept
    return found


def _set(document: Any, path: keys.Path, value: Any) -> None:
    """Set or remove one key in plain tables and in tomlkit's alike."""
    table = document
    for part in path[:-1]:
        if part not in table:
            if value is GONE:
                return
            table[part] = tomlkit.table() if isinstance(document, tomlkit.TOMLDocument) else {}
        table = table[part]
    last = path[-1]
    if value is GONE:
        if last in table:
            del table[last]
    elif isinstance(value, list | tuple) and isinstance(table.get(last), tomlkit.items.Array):
        _set_array(table[last], list(value))
    elif isinstance(value, Mapping) and not value:
        table.pop(last, None)
    else:
        table[last] = list(value) if isinstance(value, tuple) else value


def _set_array(array: tomlkit.items.Array, values: list[Any]) -> None:
    """Element by element, so that comments inside a long list stay where they are."""
    for position, value in enumerate(values):
        if position >= len(array):
            array.append(value)
        elif array[position] != value:
            array[position] = value
    while len(array) > len(values):
        del array[len(array) - 1]
