"""Prompt sets for measurements: the shipped one, the operator's own JSONL, or token ids."""

from __future__ import annotations

import hashlib
import json
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from console.errors import ConsoleError, ExitCode

SHIPPED = "shipped"
MOST_BYTES = 16 << 20
MOST_PROMPTS = 10_000


class PromptSet(msgspec.Struct, frozen=True):
    """Prompts as the engine takes them; ``name`` carries a hash, so that unlike sets are never compared."""

    name: str
    items: tuple[dict[str, Any], ...]
    """Each with ``text`` or ``input_ids``."""


def load_prompts(source: str = SHIPPED) -> PromptSet:
    """The shipped set, or a JSONL file: a line is a string, ``{"text"}``, ``{"prompt"}``, ``{"input_ids"}`` or a list of ids.

    Raises:
        ConsoleError: the file cannot be read or a line is none of these.
    """
    if source == SHIPPED:
        text = resources.files("console.data").joinpath("prompts.jsonl").read_text(encoding="utf-8")
    else:
        text = _read(Path(source).expanduser())
    items = tuple(_item(line, number, source) for number, line in enumerate(text.splitlines(), 1) if line.strip())
    if not items:
        raise ConsoleError(f"{source} holds no prompt", code=ExitCode.USAGE)
    digest = hashlib.sha256(json.dumps(items, sort_keys=True).encode()).hexdigest()[:8]
    return PromptSet(f"{Path(source).name}:{digest}", items)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConsoleError(
            f"cannot read the prompts {path}", why=error.strerror or str(error), code=ExitCode.USAGE
        ) from error
    if len(data) > MOST_BYTES:
        raise ConsoleError(f"{path} is larger than 16 MB", todo="use a part of it", code=ExitCode.USAGE)
    return data.decode("utf-8", "replace")


def _item(line: str, number: int, source: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, str) and value:
        return {"text": value}
    ids = value if isinstance(value, list) else value.get("input_ids") if isinstance(value, dict) else None
    if isinstance(ids, list) and ids and all(type(token) is int and token >= 0 for token in ids):
        return {"input_ids": ids}
    if isinstance(value, dict):
        text = value.get("text") or value.get("prompt")
        if isinstance(text, str) and text:
            return {"text": text}
    raise ConsoleError(
        f"line {number} of {source} is no prompt",
        todo='write a JSON string, {"text": ...} or {"input_ids": [...]} a line',
        code=ExitCode.USAGE,
    )
