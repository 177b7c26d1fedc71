"""A profile never holds a secret: what looks like one is refused by name, its value is never repeated.

Stricter than masking (:mod:`console.engine.secrets`): here a doubtful name costs the operator a line, there a hidden figure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from profiles.keys import Path

SECRET_WORDS = frozenset(
    {"SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS", "APIKEY", "PWD"}
)
SECRET_ENDS = frozenset({"TOKEN", "KEY", "PAT"})
SECRET_PAIRS = ("API_KEY", "ACCESS_KEY", "AUTH_TOKEN")
POINTERS = frozenset({"FILE", "PATH", "DIR"})
"""A name that ends so says where a secret is, not what it is."""
HARMLESS = frozenset({"", "0", "1", "true", "false", "yes", "no", "on", "off"})
"""SGLANG_LOG_DECODE_GRAPH_KEY=1 is a switch."""

_LOOK = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|AKIA[0-9A-Z]{16})\b"
    r"|://[^\s/@:]+:[^\s/@]+@"
)


def is_secret(name: str, value: str) -> bool:
    """Whether a variable or option of this name and value is a secret: HF_TOKEN is, TOKENIZERS_PARALLELISM is not."""
    if _LOOK.search(value):
        return True
    if value.strip().lower() in HARMLESS:
        return False
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper().replace("-", "_").strip("_").split("_")
    if words in (["PWD"], ["OLDPWD"]):  # the shell's working directory
        return False
    if words[-1] in POINTERS or (words[-1] == "KEY" and value.startswith(("/", "~", "./"))):
        return False
    joined = "_".join(words)
    return (
        words[-1] in SECRET_ENDS or not SECRET_WORDS.isdisjoint(words) or any(pair in joined for pair in SECRET_PAIRS)
    )


def first(data: Mapping[str, Any]) -> Path | None:
    """Where the first secret stands: a variable, a server argument, or any text that looks like a token."""
    engine = data.get("engine")
    engine = engine if isinstance(engine, Mapping) else {}
    env = engine.get("env")
    for name, value in _pairs(env.get("set") if isinstance(env, Mapping) else None):
        if is_secret(name, value):
            return ("engine", "env", "set", name)
    args = engine.get("args")
    for flag, value in _options(args if isinstance(args, Sequence) and not isinstance(args, str) else ()):
        if is_secret(flag, value):
            return ("engine", "args", f"--{flag}")
    return _looks(data, ())


def _pairs(table: object) -> Iterator[tuple[str, str]]:
    if isinstance(table, Mapping):
        yield from ((name, value) for name, value in table.items() if isinstance(value, str))


def _options(args: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Server options with their values, ``--a b`` and ``--a=b``."""
    words = [word if isinstance(word, str) else "" for word in args]
    for position, word in enumerate(words):
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            following = words[position + 1] if position + 1 < len(words) else ""
            yield name, value if equals else ("" if following.startswith("--") else following)


def _looks(value: object, above: Path) -> Path | None:
    if isinstance(value, str):
        return above if _LOOK.search(value) else None
    if isinstance(value, Mapping):
        return next((found for key, item in value.items() if (found := _looks(item, (*above, key)))), None)
    if isinstance(value, Sequence):
        return next((above for item in value if _looks(item, above)), None)
    return None
