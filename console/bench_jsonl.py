"""Measured cells as the jsonl of SGLang's ``scripts/playground/bench_speculative.py``, and back. Pure.

A line has ``batch_size``, ``steps``, ``topk``, ``num_draft_tokens`` (these three are 0 without speculation), ``acc_length``,
``step_time`` (seconds a round), ``speed`` (acc_length / step_time, tok/s of one stream) and ``completion_tokens`` (tokens an
answer, mean). The console adds ``measured_tok_s`` and ``total_tok_s``, what one stream and all of them did: ``speed`` is a sum,
not a measurement.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from console.errors import ConsoleError, ExitCode

LIMIT_BYTES = 8 * 1024 * 1024
FIELDS = ("batch_size", "steps", "topk", "num_draft_tokens", "acc_length", "step_time", "speed", "completion_tokens")
MOST_STEPS = 64


def lines(measured: Mapping[str, Any], *, topk: int | None = None, width: int | None = None) -> list[str]:
    """A profile's ``measured.calibrate`` as jsonl, one line a cell.

    Args:
        measured: the table.
        topk: of the profile; a chain without one.
        width: verify width of a tree; ``None`` for a chain, whose width is steps + 1.

    Raises:
        ConsoleError: there is nothing measured in it.
    """
    cells = measured.get("cells")
    if not isinstance(cells, list) or not cells:
        raise ConsoleError("nothing is measured in this profile", todo="console calibrate", code=ExitCode.NO)
    return [json.dumps(_line(cell, topk or 1, width), allow_nan=False) for cell in cells if isinstance(cell, Mapping)]


def _line(cell: Mapping[str, Any], topk: int, width: int | None) -> dict[str, Any]:
    depth, accept_len, cycle_ms = int(cell["depth"]), cell.get("accept_len"), cell.get("cycle_ms")
    if depth == 0 and accept_len is None:
        accept_len = 1.0
    stream = cell.get("stream_tok_s")
    by_cycle = round(1000.0 * accept_len / cycle_ms, 3) if accept_len and cycle_ms else None
    requests, tokens = cell.get("requests"), cell.get("tokens")
    found = {
        "batch_size": int(cell["concurrency"]),
        "steps": depth,
        "topk": topk if depth else 0,
        "num_draft_tokens": (width or depth + 1) if depth else 0,
        "acc_length": accept_len,
        "step_time": cycle_ms / 1000.0 if cycle_ms else None,
        "speed": by_cycle if by_cycle is not None else stream,
        "completion_tokens": round(tokens / requests, 1) if tokens and requests else None,
        "measured_tok_s": stream,
        "total_tok_s": cell.get("tok_s"),
    }
    return {key: value for key, value in found.items() if value is not None or key in FIELDS}


def cells(text: str) -> list[dict[str, Any]]:
    """The cells of a jsonl, as a profile keeps them.

    Raises:
        ConsoleError: a line is none, with its number.
    """
    if len(text) > LIMIT_BYTES:
        raise ConsoleError("this is no jsonl of measurements", why=f"{len(text)} characters", code=ExitCode.USAGE)
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            cell = _cell(line, number)
            found[cell["concurrency"], cell["depth"]] = cell
    if not found:
        raise ConsoleError("the jsonl holds no line", code=ExitCode.USAGE)
    return list(found.values())


def _cell(line: str, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise _bad(number, f"no JSON: {error}") from error
    if not isinstance(row, dict):
        raise _bad(number, "no object")
    batch, steps = _count(row, "batch_size", number, 1), _count(row, "steps", number, 0)
    if steps > MOST_STEPS:
        raise _bad(number, f"steps {steps} is out of range")
    speed = _positive(row, "measured_tok_s", number) or _positive(row, "speed", number)
    if speed is None:
        raise _bad(number, "speed is missing")
    accept_len, seconds = _positive(row, "acc_length", number), _positive(row, "step_time", number)
    tokens = _positive(row, "completion_tokens", number)
    total = _positive(row, "total_tok_s", number) or batch * speed
    cell: dict[str, Any] = {
        "depth": steps,
        "concurrency": batch,
        "tok_s": round(total, 3),
        "stream_tok_s": round(speed, 3),
    }
    if tokens is not None:
        cell |= {"tokens": round(tokens), "requests": 1}
    if accept_len is not None:
        cell["accept_len"] = round(accept_len, 4)
    if seconds is not None:
        cell["cycle_ms"] = round(seconds * 1000.0, 4)
    return cell


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is no figure")


def _count(row: Mapping[str, Any], key: str, number: int, least: int) -> int:
    value = row.get(key)
    if type(value) is not int or not least <= value < 2**31:
        raise _bad(number, f"{key} is no whole number from {least} on")
    return value


def _positive(row: Mapping[str, Any], key: str, number: int) -> float | None:
    value = row.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise _bad(number, f"{key} is no positive number")
    return float(value)


def _bad(number: int, why: str) -> ConsoleError:
    return ConsoleError(f"line {number} is no measurement", why=why, code=ExitCode.USAGE)


def looks_like_jsonl(text: str) -> bool:
    """Whether a text is jsonl rather than a command line."""
    return text.lstrip("\ufeff \t\r\n").startswith("{")


def summary(found: Iterable[Mapping[str, Any]], at: str) -> dict[str, Any]:
    """``measured.calibrate`` of imported cells; without a fingerprint they are never taken for this rig's own."""
    return {"at": at, "prompts": "imported", "sampling": "imported", "cells": [dict(cell) for cell in found]}
