"""From a file's bytes to a :class:`~profiles.schema.Profile`, or one line that says what is wrong and where."""

from __future__ import annotations

import math
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec

from console.errors import ConsoleError, ExitCode
from profiles import keys, secrets
from profiles.schema import Profile

SIZE_LIMIT_BYTES = 1024 * 1024
"""A profile is a page. What is larger is another file."""

_TOML_PLACE = re.compile(
    r"(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|(?P<end>end of document))\)", re.DOTALL
)
_MSGSPEC_PLACE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?", re.DOTALL)
_GOT = re.compile(r"Expected `(?P<wanted>[^`]+)`, got `(?P<got>[^`]+)`")
_BOUND = re.compile(r"Expected `[^`]+` (?P<bound>[<>]=? ?[-\d.]+)")

TYPES = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "datetime": "a date",
    "date": "a date",
    "time": "a time",
    "null": "nothing",
}
KINDS = {bool: "bool", int: "int", float: "float", str: "str", list: "array", dict: "object"}


def bad(origin: str, what: str, *, todo: str = "") -> ConsoleError:
    """The error for a file that holds no profile."""
    return ConsoleError(f"{origin}: {what}", todo=todo, code=ExitCode.USAGE)


def read_bytes(path: Path) -> bytes:
    """The bytes of a profile's file.

    Raises:
        ConsoleError: it cannot be read, or is no ordinary file of a profile's size.
    """
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise bad(str(path), "is a folder, not a profile")
        if not stat.S_ISREG(found.st_mode):
            raise bad(str(path), "is no ordinary file")
        if found.st_size > SIZE_LIMIT_BYTES:
            raise bad(str(path), f"has {found.st_size} bytes; no profile is larger than {SIZE_LIMIT_BYTES}")
        return path.read_bytes()
    except OSError as error:
        raise bad(str(path), f"cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # a path with a NUL
        raise bad(repr(str(path)), "is no path") from error


def text_of(raw: bytes, origin: str) -> str:
    """The text of a file: UTF-8 without a byte order mark, as TOML asks."""
    if raw.startswith(b"\xef\xbb\xbf"):
        raise bad(origin, "begins with a byte order mark", todo="save it as UTF-8 without BOM")
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise bad(origin, "is UTF-16", todo="save it as UTF-8")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise bad(origin, f"line {line}: is not UTF-8", todo="save it as UTF-8") from error


def tables(text: str, origin: str) -> dict[str, Any]:
    """The tables of TOML text."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise bad(origin, "is nested too deep") from None
    except ValueError as error:
        place = _TOML_PLACE.fullmatch(str(error))
        if place is None:
            raise bad(origin, _plain(str(error))) from error
        where = "at the end" if place["end"] else f"line {place['line']}, column {place['column']}"
        raise bad(origin, f"{where}: {_plain(place['what'])}") from error


def parse(text: str, origin: str, stem: str = "") -> Profile:
    """The profile in TOML text.

    Args:
        text: the file's text.
        origin: what to call the file in an error.
        stem: the file's name without suffix; it is the profile's name where the text gives none.

    Raises:
        ConsoleError: one line with the file, the key's path, what is wrong, and the nearest known key.
    """
    data = tables(text, origin)
    if not data:
        raise bad(origin, "is empty", todo="start from a built-in: console profiles show NAME")
    if stem:
        data.setdefault("name", stem)
    return validate(data, origin)


def validate(data: Mapping[str, Any], origin: str) -> Profile:
    """The profile in a table. Raises as :func:`parse`."""
    if path := keys.unknown(data):
        meant = keys.nearest(path)
        hint = f"; did you mean {keys.shown(meant)}?" if meant else ""
        raise bad(origin, f"{keys.shown(path)}: unknown key{hint}")
    _check_numbers(data, (), origin)
    _check_environment(data, origin)
    if secret := secrets.first(data):
        raise bad(
            origin,
            f"{keys.shown(secret)}: looks like a secret, and a profile holds none",
            todo="set it in the shell and name it in engine.env.inherit, or put it in a file (engine.api_key_file)",
        )
    try:
        return msgspec.convert(data, Profile)
    except msgspec.ValidationError as error:
        raise bad(origin, _explained(str(error))) from error


def _check_numbers(value: object, path: keys.Path, origin: str) -> None:
    """NaN, infinity and integers beyond 64 bits are TOML, but no figure of a profile."""
    if isinstance(value, float) and not math.isfinite(value):
        raise bad(origin, f"{keys.shown(path)}: must be a finite number, not {value}")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise bad(origin, f"{keys.shown(path)}: is too large a number")
    if isinstance(value, Mapping):
        for key, item in value.items():
            _check_numbers(item, (*path, key), origin)
    elif isinstance(value, list):
        for item in value:
            _check_numbers(item, path, origin)


def _check_environment(data: Mapping[str, Any], origin: str) -> None:
    """Variables are text; ``NCCL_CUMEM_ENABLE = 1`` is the likeliest slip in a profile, so it is named with its key."""
    table: Any = data
    for part in ("engine", "env", "set"):
        table = table.get(part) if isinstance(table, Mapping) else None
    if not isinstance(table, Mapping):
        return
    for name, value in table.items():
        path = keys.shown(("engine", "env", "set", name))
        if not isinstance(value, str):
            got = TYPES[KINDS.get(type(value), "datetime")]
            quoted = str(value).lower() if isinstance(value, bool) else str(value)
            hint = f'; write "{quoted}"' if isinstance(value, bool | int | float) else ""
            raise bad(origin, f"{path}: expected text, got {got}{hint}")
        if not name or "=" in name or "\0" in name + value:
            raise bad(origin, f"{path}: cannot be an environment variable")


def _explained(message: str) -> str:
    """A msgspec message in the operator's words: ``Expected `int`, got `str` - at `$.engine.tp` ``."""
    place = _MSGSPEC_PLACE.fullmatch(message)
    what, path = (place["what"], place["path"] or "") if place else (message, "")
    if got := _GOT.search(what):
        wanted = " or ".join(
            TYPES.get(kind.strip(), kind) for kind in got["wanted"].split("|") if kind.strip() != "null"
        )
        what = f"expected {wanted}, got {TYPES.get(got['got'], got['got'])}"
    elif bound := _BOUND.search(what):
        what = f"must be {bound['bound']}"
    elif "Invalid enum value" in what and (choices := _choices(path)):
        what = f"must be {' or '.join(choices)}"
    elif "matching regex" in what and path == "name":
        what = "must be 1 to 64 letters, digits, '.', '_' or '-', and begin with a letter or digit"
    return f"{path}: {what}" if path else what


def _choices(path: str) -> tuple[str, ...]:
    """The words that a key may have; none for one that takes other values."""
    kind = keys.known().get(tuple(path.split(".")))
    return tuple(f'"{word}"' for word in get_args(kind)) if get_origin(kind) is Literal else ()


def _plain(text: str) -> str:
    """Text of a parser, which quotes the file: control characters are shown, not sent."""
    return "".join(char if char.isprintable() or char == " " else f"\\x{ord(char):02x}" for char in text)


def readable(path: Path) -> Profile:
    """The profile in a file, by its path. A file ``b.toml`` that calls itself ``a`` is taken at its word."""
    return parse(text_of(read_bytes(path), os.fspath(path)), os.fspath(path), path.stem)
