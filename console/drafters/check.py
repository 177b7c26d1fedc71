"""The whole check as one call: names in, judgement out."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import msgspec

from console.drafters import catalogue
from console.drafters.compare import Comparison, compare
from console.drafters.facts import TargetFacts, parse_config, target_facts
from console.drafters.header import UnreadableError
from console.drafters.source import Checkpoint, Folder, open_checkpoint
from console.drafters.subject import CONFIG, CONFIG_READ_BYTES, Drafter, Subject, read_drafter
from console.drafters.verdict import Judgement, Verdict, judge
from console.errors import ConsoleError, ExitCode

COMPARE_CHUNK_BYTES = 8 << 20
SERVER_TIMEOUT_S = 5.0
KEY_VARIABLE = "SGLANG_API_KEY"
SERVER_LIMIT_BYTES = 4 << 20


def check(
    drafter: str, *, target: str = "", running: str = "", algorithm: str = "", api_key: str = ""
) -> tuple[Judgement, Subject]:
    """Judge ``drafter`` (folder or org/name[@rev]) for ``target`` (folder, repository or URL of a running server).

    Without ``running`` the drafter of the server named by ``target`` is taken, if it can be read here.

    Raises:
        ConsoleError: a name that is nothing, a hub or server that says no.
    """
    ours = open_checkpoint(drafter)
    facts, serving = target_of(target, api_key) if target else (None, "")
    if facts and algorithm:
        facts = msgspec.structs.replace(facts, algorithm=algorithm.upper())
    current = running_of(running, required=True) if running else running_of(serving)
    subject = Subject(drafter=read_drafter(ours), target=facts, running=current[1] if current else None)
    if current:
        subject = msgspec.structs.replace(subject, identical=_identical(ours, current[0], subject))
    return judge(subject), subject


def comparison(subject: Subject) -> Comparison | None:
    """The drafter and the running one tensor by tensor, when both are on this disk."""
    if subject.running is None or not (subject.drafter.local and subject.running.local):
        return None
    mine, theirs = open_checkpoint(subject.drafter.label), open_checkpoint(subject.running.label)
    return compare(subject.drafter, mine, subject.running, theirs)


def running_of(name: str, *, required: bool = False) -> tuple[Checkpoint, Drafter] | None:
    """The drafter that runs; one that was launched by its repository's name is read from the cache.

    Raises:
        ConsoleError: ``required`` and it cannot be had.
    """
    if not name:
        return None
    if required:
        checkpoint = open_checkpoint(name)
    elif (place := catalogue.resolve(name)) is not None:
        checkpoint = Folder(place)
    else:
        return None
    return checkpoint, read_drafter(checkpoint)


def target_of(name: str, api_key: str = "") -> tuple[TargetFacts, str]:
    """Facts of the target, and the running drafter when ``name`` is a server's URL.

    Raises:
        ConsoleError: neither a folder nor a repository, or a server that does not answer.
    """
    if name.startswith(("http://", "https://")):
        return _server_target(name, api_key or os.environ.get(KEY_VARIABLE, ""))
    return _file_target(name), ""


def _file_target(name: str) -> TargetFacts:
    checkpoint = open_checkpoint(name)
    try:
        config = parse_config(checkpoint.read(CONFIG, 0, CONFIG_READ_BYTES))
    except UnreadableError as error:
        raise ConsoleError(f"cannot read the target {name}", why=str(error), code=ExitCode.USAGE) from error
    own_name = str(config.get("_name_or_path") or "")
    return target_facts(config, origin=checkpoint.label, name=_telling(name, own_name))


def _telling(name: str, own: str) -> str:
    """The name that says more: a repository beats a folder called "target"."""
    return own if "/" in own and not own.startswith("/") and name.startswith(("/", ".", "~")) else name


def _server_target(url: str, key: str) -> tuple[TargetFacts, str]:
    """What a running server tells of its target; its config.json when that is on this disk."""
    info = _get(url, "/server_info", key) or _get(url, "/get_server_info", key)
    model = str(info.get("model_path") or "")
    facts = TargetFacts(origin=url, name=str(info.get("served_model_name") or model))
    if info.get("simulated") and (config := _simulated_target(url, key)):
        facts = target_facts(config, origin=f"{url} (simulated {model})", name=model)
    elif model and Path(model).is_dir():
        facts = msgspec.structs.replace(_file_target(model), origin=f"{url} ({model})")
    elif model:
        try:
            facts = msgspec.structs.replace(_file_target(model), origin=f"{url} ({model})")
        except ConsoleError as error:
            facts = msgspec.structs.replace(facts, problem=error.line)
    context = info.get("context_length")
    facts = msgspec.structs.replace(
        facts,
        tp=info["tp_size"] if isinstance(info.get("tp_size"), int) else None,
        context_len=context if isinstance(context, int) and context > 0 else facts.max_position,
        algorithm=str(info.get("speculative_algorithm") or "").upper(),
        rejection_sampling=bool(info.get("speculative_use_rejection_sampling")),
        version=str(info.get("version") or ""),
    )
    return facts, str(info.get("speculative_draft_model_path") or "")


def _simulated_target(url: str, key: str) -> dict[str, Any]:
    """The geometry a simulated engine claims; there is no folder to read it from."""
    simulated = _get(url, "/model_info", key).get("simulated")
    config = simulated.get("target") if isinstance(simulated, dict) else None
    return config if isinstance(config, dict) else {}


def _get(url: str, route: str, key: str) -> dict[str, Any]:
    address = url.rstrip("/") + route
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {key}"} if key else {})  # noqa: S310 - checked
    try:
        with urllib.request.urlopen(request, timeout=SERVER_TIMEOUT_S) as response:  # noqa: S310 - http(s) was checked
            answer = json.loads(response.read(SERVER_LIMIT_BYTES))
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return {}
        if error.code in {401, 403}:
            todo = f"set {KEY_VARIABLE}, or name the target's folder with --target"
            raise ConsoleError(f"{address} wants an API key", todo=todo, code=ExitCode.UNREACHABLE) from error
        raise ConsoleError(f"{address} answered {error.code}", code=ExitCode.UNREACHABLE) from error
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "reason", error)
        raise ConsoleError(
            f"cannot ask the server at {url}", why=str(reason)[:200], code=ExitCode.UNREACHABLE
        ) from error
    return answer if isinstance(answer, dict) else {}


def _identical(ours: Checkpoint, theirs: Checkpoint, subject: Subject) -> bool | None:
    """Is it the running one: the same facts and the same bytes? The files are read to the first difference."""
    running = subject.running
    if running is None or not subject.drafter.has_header or subject.drafter.facts != running.facts:
        return False
    if subject.drafter.weights.tensors != running.weights.tensors:
        return False
    mine, other = subject.drafter.weights.files, running.weights.files
    if all(file.sha256 for file in (*mine, *other)):
        return [file.sha256 for file in mine] == [file.sha256 for file in other]
    if ours.path is None or theirs.path is None:
        return None
    if ours.path.resolve() == theirs.path.resolve():
        return True
    pairs = [(ours.path / a.name, theirs.path / b.name) for a, b in zip(mine, other, strict=True)]
    return all(_same_content(one, two) for one, two in pairs)


def _same_content(one: Path, two: Path) -> bool:
    if one.resolve() == two.resolve():
        return True
    with one.open("rb") as left, two.open("rb") as right:
        while True:
            a, b = left.read(COMPARE_CHUNK_BYTES), right.read(COMPARE_CHUNK_BYTES)
            if a != b:
                return False
            if not a:
                return True


def as_json(judgement: Judgement, subject: Subject) -> dict[str, Any]:
    """The JSON of ``console check --json``."""
    drafter = subject.drafter
    return {
        "verdict": judgement.verdict,
        "why": judgement.why,
        "todo": judgement.todo,
        "checks": [
            {key: getattr(item, key) for key in ("id", "ok", "severity", "message", "drafter", "reference")}
            for item in judgement.checks
        ],
        "drafter": {
            "name": drafter.label,
            "kind": drafter.facts.kind,
            "revision": drafter.revision or None,
            "bytes": drafter.weights.data_bytes or None,
            "files": [{"name": file.name, "bytes": file.size_bytes} for file in drafter.files],
            **{key: value for key, value in msgspec.to_builtins(drafter.facts).items() if key != "kind"},
        },
        "target": msgspec.to_builtins(subject.target) if subject.target else None,
        "running": subject.running.label if subject.running else None,
        "comparison": msgspec.to_builtins(comparison(subject)),
        "bytes_expected": judgement.bytes_expected,
        "notes": list(judgement.notes),
    }


def exit_code(verdict: Verdict) -> ExitCode:
    """0 when it can be served, 1 when nobody can tell, 4 when the answer is no."""
    if verdict.serves:
        return ExitCode.OK
    return ExitCode.FAILED if verdict is Verdict.UNKNOWN else ExitCode.NO
