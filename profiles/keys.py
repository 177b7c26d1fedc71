"""The keys of a profile as dotted paths: which there are, which is nearest to a mistyped one, how a path is shown."""

from __future__ import annotations

import difflib
import functools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from profiles.schema import Profile

Path = tuple[str, ...]

FREE: frozenset[Path] = frozenset({("engine", "env", "set"), ("measured",)})
"""Tables whose keys are the operator's own."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def shown(path: Path) -> str:
    """A path as TOML writes it; a key with odd characters is quoted and escaped, so it cannot act on a terminal."""
    return ".".join(part if _BARE.fullmatch(part) else json.dumps(part) for part in path)


@functools.cache
def known() -> dict[Path, Any]:
    """Every key with its type, sections included."""
    return dict(_walk(Profile, ()))


def _walk(section: type[msgspec.Struct], above: Path) -> Iterator[tuple[Path, Any]]:
    for field in msgspec.structs.fields(section):
        path = (*above, field.name)
        yield path, field.type
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from _walk(field.type, path)


def unknown(data: Mapping[str, Any]) -> Path | None:
    """The first key that no profile has, in the file's order."""

    def search(table: Mapping[str, Any], above: Path) -> Path | None:
        for key, value in table.items():
            path = (*above, key)
            if path not in known():
                return path
            if isinstance(value, Mapping) and path not in FREE and (found := search(value, path)):
                return found
        return None

    return search(data, ())


def nearest(path: Path) -> Path | None:
    """The known key that was probably meant: a neighbour spelled alike, else the same word in another section."""
    siblings = {k[-1]: k for k in known() if k[:-1] == path[:-1]}
    if found := difflib.get_close_matches(path[-1], siblings, n=1, cutoff=0.6):
        return siblings[found[0]]
    elsewhere = {k[-1]: k for k in reversed(known())}
    if found := difflib.get_close_matches(path[-1], elsewhere, n=1, cutoff=0.75):
        return elsewhere[found[0]]
    whole = {shown(k): k for k in known()}
    found = difflib.get_close_matches(shown(path), whole, n=1, cutoff=0.7)
    return whole[found[0]] if found else None


def flat(profile: Profile) -> dict[Path, Any]:
    """The keys of a profile that differ from the defaults, with values as TOML has them; ``name`` is always among them."""
    found: dict[Path, Any] = {("name",): profile.name}
    _flatten(profile, Profile(name=profile.name), (), found)
    return found


def nested(profile: Profile) -> dict[str, Any]:
    """A profile as nested tables, every key in it, defaults included."""

    def plain(value: Any) -> Any:
        if isinstance(value, msgspec.Struct):
            return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
        return list(value) if isinstance(value, tuple) else value

    found: dict[str, Any] = plain(profile)
    return found


def _flatten(value: Any, default: Any, path: Path, found: dict[Path, Any]) -> None:
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            _flatten(getattr(value, name), getattr(default, name), (*path, name), found)
    elif isinstance(value, Mapping) and value:
        for key, item in value.items():
            _flatten(item, None, (*path, str(key)), found)
    elif value not in (default, {}):
        found[path] = list(value) if isinstance(value, tuple) else value
