"""Secrets never reach a screen, a log line, a record: masked by name, by look and by value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

MASK = "***"
SHORTEST_KNOWN_VALUE = 6
"""A known value shorter than this would mask ordinary text."""

_NAME = (
    r"(?:api[_-]?keys?|access[_-]?key(?:[_-]?id)?|secret(?:[_-]?(?:access[_-]?)?key)?|private[_-]?key|signing[_-]?key|encryption[_-]?key"
    r"|passwd|password|passphrase|credentials?|auth[_-]?token|bearer[_-]?token|access[_-]?token|refresh[_-]?token|hub[_-]?token"
    r"|hf[_-]?token|github[_-]?token|session[_-]?token)"
)
_SECRET_NAME = re.compile(rf"(?i)(?:{_NAME}|(?:^|[_-])(?:token|pat|secret|passw(?:or)?d|pwd|auth|cookie|dsn))$")
_NO_SECRET_NAME = re.compile(
    r"(?i)(?:^|[_-])(?:eos|bos|pad|unk|mask|sep|cls|stop|image|video|audio|num|max|min|per|new|special|draft|dummy|next|last)[_-]token$"
)

_VALUE = r"(?:'[^'\r\n]*'|\"[^\"\r\n]*\"|[^\s'\",;)}\]&]+)"
_NAMED = re.compile(
    rf"(?i)(?P<name>(?<![A-Za-z])[A-Za-z0-9_-]{{0,60}}{_NAME}|(?<![A-Za-z0-9_#-])(?:[A-Za-z0-9]{{1,40}}_){{1,8}}token(?![A-Za-z_])|(?<=[?&])(?:token|key|sig|signature))"
    rf"(?P<sep>['\"]?\s*[=:]\s*)(?P<value>{_VALUE})"
)
_FLAG = re.compile(
    rf"(?i)(?P<name>--?[a-z0-9-]{{0,60}}{_NAME}|--(?:[a-z0-9]{{1,40}}-){{0,8}}token)"
    rf"(?P<sep>[= ]+)(?P<value>(?!--?[a-z]){_VALUE})"
)
_BEARER = re.compile(r"(?i)\b(?P<name>bearer|basic)(?P<sep>\s+)(?P<value>[A-Za-z0-9._~+/=-]{6,})")
_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]{1,20}://)(?P<user>[^\s/@:]{1,200}):(?P<value>[^\s/@]{1,400})@")
_LOOK = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|AKIA[0-9A-Z]{16}|xox[abprs]-[A-Za-z0-9-]{10,}|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*)"
)
_HINTS = (
    *("key", "KEY", "Key", "ecret", "ECRET", "oken", "TOKEN", "assw", "ASSW", "assphrase", "redential"),
    *("earer", "EARER", "asic ", "://", "hf_", "sk-", "gh", "glpat", "AKIA", "xox", "eyJ"),
)
"""One of these stands in every text that the patterns below could change: most lines are let through on them alone."""
_HARMLESS = {"none", "null", "true", "false", "''", '""', MASK, ""}


def is_secret_name(name: str) -> bool:
    """Whether a variable, option or header of this name holds a secret: ``HF_TOKEN`` does, ``eos_token`` does not."""
    bare = name.lstrip("-")
    return bool(_SECRET_NAME.search(bare)) and not _NO_SECRET_NAME.search(bare)


def _masked(found: re.Match[str]) -> str:
    value = found["value"]
    if value.lower() in _HARMLESS or _NO_SECRET_NAME.search(found["name"]):
        return found[0]
    quote = value[0] if value[0] in "'\"" else ""
    return f"{found['name']}{found['sep']}{quote}{MASK}{quote}"


def mask_text(text: str, values: Iterable[str] = ()) -> str:
    """A line of text with every secret replaced by ``***``.

    Args:
        text: any text; not changed when nothing in it looks like a secret.
        values: secrets known by value; they are masked wherever they stand.
    """
    for value in values:
        if len(value) >= SHORTEST_KNOWN_VALUE and value in text:
            text = text.replace(value, MASK)
    if not any(hint in text for hint in _HINTS):
        return text
    text = _LOOK.sub(MASK, text)
    text = _URL.sub(rf"\g<scheme>\g<user>:{MASK}@", text)
    text = _BEARER.sub(_masked, text)
    text = _FLAG.sub(_masked, text)
    return _NAMED.sub(_masked, text)


def mask_environment(env: Mapping[str, str]) -> dict[str, str]:
    """An environment for showing: secrets masked by name, other values masked by look."""
    return {name: MASK if is_secret_name(name) and value else mask_text(value) for name, value in env.items()}


def mask_argv(argv: Sequence[str]) -> list[str]:
    """A command line for showing: the value after ``--api-key`` and its like is masked, with ``=`` or as its own word."""
    shown: list[str] = []
    hide_next = False
    for word in argv:
        name, equals, _ = word.partition("=")
        if hide_next and not word.startswith("--"):
            shown.append(MASK)
            hide_next = False
            continue
        hide_next = False
        if word.startswith("-") and is_secret_name(name):
            shown.append(f"{name}={MASK}" if equals else word)
            hide_next = not equals
        else:
            shown.append(mask_text(word))
    return shown


def secret_values(env: Mapping[str, str], argv: Sequence[str] = ()) -> frozenset[str]:
    """The secrets themselves, for :func:`mask_text`: values of secret variables and of secret options."""
    found = {value for name, value in env.items() if is_secret_name(name)}
    for position, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if word.startswith("-") and is_secret_name(name):
            found.add(value if equals else argv[position + 1] if position + 1 < len(argv) else "")
    return frozenset(value for value in found if len(value) >= SHORTEST_KNOWN_VALUE)
