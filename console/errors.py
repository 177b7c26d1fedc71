"""Errors that reach the operator, and the exit codes of the command line."""

from __future__ import annotations

import enum


class ExitCode(enum.IntEnum):
    """Exit codes of every command; part of the command line's contract."""

    OK = 0
    """Done, or the answer is good."""
    FAILED = 1
    """Something was tried and failed."""
    USAGE = 2
    """The command line or a file it names is wrong."""
    UNREACHABLE = 3
    """Nothing is running, or it cannot be reached."""
    NO = 4
    """The answer is no: incompatible, below break-even, unhealthy."""


class ConsoleError(Exception):
    """One clear line for the operator.

    Args:
        what: what went wrong, in the operator's words.
        why: the cause, if known.
        todo: what to do about it.
        code: the exit code a command ends with.
    """

    def __init__(self, what: str, *, why: str = "", todo: str = "", code: ExitCode = ExitCode.FAILED) -> None:
        self.what = what
        self.why = why
        self.todo = todo
        self.code = code
        super().__init__(self.line)

    @property
    def line(self) -> str:
        """The message as one line: what, why, what to do."""
        parts = [self.what]
        if self.why:
            parts.append(self.why)
        if self.todo:
            parts.append(self.todo)
        return " - ".join(" ".join(part.split()) for part in parts)
