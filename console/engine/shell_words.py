"""A shell text as the commands in it: words, files it writes, variables it sets; what launch scripts are made of, no more."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field

from console.errors import ConsoleError, ExitCode

_ENDS = frozenset({"&&", ";", "||", "&", "|", ";;"})
_REDIRECTIONS = frozenset({">", ">>", "<", ">&", "&>", "<<<"})
_FD_REDIRECTION = re.compile(r"(?<=\s)[0-2]>>?\s*(?:&[0-2]|[^\s;&|]+)")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_SHELL_ITSELF = frozenset({"mkdir", "set", "cd", "true", ":", "ulimit", "sleep", "echo"})
_PREFIXES = frozenset({"nohup", "exec", "time", "setsid", "stdbuf", "numactl"})
"""Words that run what comes after them."""
SIZE_LIMIT_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Command:
    """One program that is run."""

    words: tuple[str, ...]
    env: dict[str, str]
    unset: tuple[str, ...] = ()


@dataclass(slots=True)
class Script:
    """What a text does."""

    commands: list[Command] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    """Texts it writes with printf, by path."""
    left_out: list[str] = field(default_factory=list)
    """What was not understood and does not belong to a launch."""


def parse(text: str) -> Script:
    """The commands of a shell text. Comments are passed over.

    Raises:
        ConsoleError: a quote is not closed, or the text is none.
    """
    if len(text) > SIZE_LIMIT_BYTES:
        raise ConsoleError("this is no command line", why=f"it has {len(text)} characters", code=ExitCode.USAGE)
    script = Script()
    exported: dict[str, str] = {}
    unset: list[str] = []
    for words in _segments(text):
        target, rest = _redirected(words)
        match rest:
            case []:
                continue
            case ["export", *pairs]:
                exported.update(_assignments(pairs)[0])
            case ["unset", *names]:
                unset += names
            case ["printf", "%s", content] | ["echo", content] if target:
                script.files[target] = content
            case [name, *_] if name in _SHELL_ITSELF:
                continue
            case _:
                _command(rest, exported, unset, script)
    return script


def _command(words: list[str], exported: dict[str, str], unset: list[str], script: Script) -> None:
    env, words = _assignments(words)
    gone = list(unset)
    while words and (words[0] in _PREFIXES or words[0] == "env"):
        if words.pop(0) != "env":
            continue
        while words[:1] == ["-u"]:
            gone += words[1:2]
            del words[:2]
        more, words = _assignments(words)
        env |= more
    if words:
        script.commands.append(Command(tuple(words), {**exported, **env}, tuple(gone)))
    else:
        exported.update(env)


def _assignments(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """The ``NAME=VALUE`` words at the beginning, and the rest."""
    count = next((at for at, word in enumerate(words) if not _ASSIGNMENT.match(word)), len(words))
    return dict(word.split("=", 1) for word in words[:count]), list(words[count:])


def _redirected(words: list[str]) -> tuple[str, list[str]]:
    """Where the output goes, and the words without redirections."""
    target, rest, skip = "", [], False
    for word in words:
        if skip:
            target, skip = word, False
        elif word in _REDIRECTIONS:
            skip = True
        else:
            rest.append(word)
    return target, rest


def _segments(text: str) -> list[list[str]]:
    lexer = shlex.shlex(_one_line(text), posix=True, punctuation_chars=";&|<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    found: list[list[str]] = [[]]
    try:
        for word in lexer:
            if word in _ENDS:
                found.append([])
            else:
                found[-1].append(word)
    except ValueError as error:
        raise ConsoleError("this is no command line", why=str(error).lower(), code=ExitCode.USAGE) from error
    return found


def _one_line(text: str) -> str:
    """Comments and continuations gone, line ends outside quotes as ``;``, redirections of numbered outputs gone."""
    lines = [line for line in text.replace("\\\r\n", "\\\n").splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    out, quote, escaped = [], "", False
    for char in joined:
        if escaped:
            escaped = False
        elif char == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        out.append(" ; " if char == "\n" and not quote else char)
    return _FD_REDIRECTION.sub(" ", "".join(out))
