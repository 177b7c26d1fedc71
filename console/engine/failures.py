"""Why it failed: one entry per cause with all the ranks that reported it, in the log's own words, with what to do.

When one rank fails, everything else fails after it: other ranks lose their peer, the launcher gets SIGQUIT. The first cause is
named, its followers are not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from console.engine.causes import ARGUMENT_ADVICE, OOM_ADVICE, RULES
from console.engine.logtext import sanitize
from console.engine.tracebacks import Traceback
from console.rig import Failure

INCIDENTS_KEPT = 400
MESSAGE_CHARS = 400
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?")
_DRAFT_CODE = (
    "speculative_hook",
    "eagle_worker",
    "eagle_draft",
    "draft_worker",
    "draft_extend",
    "base_spec_worker",
    "eagle3",
    "nextn",
    "_mtp",
    "maybe_init_draft",
    "llama_eagle",
)
_GRAPH_CODE = ("cuda_graph", "init_cuda_graphs", "capture_one", "build_adaptive_runtime_state")
_KV_CODE = ("memory_pool", "alloc_memory_pool", "kv_cache_configurator", "pool_configurator")
_WEIGHT_CODE = ("load_model", "model_loader", "load_weights", "_initialize_model")

NOT_INSTALLED = "Error while finding module specification for 'sglang"
"""What ``python -m sglang.launch_server`` says in an environment without SGLang."""

FATAL_LINES: tuple[tuple[str, str], ...] = (
    ("error while attempting to bind on address", "port-taken"),
    ("is used by a process already", "port-taken"),
    ("Watchdog caught collective operation timeout", "nccl-timeout"),
    ("Scheduler watchdog timeout", "hang"),
    ("Initialization failed. warmup error", "warmup-failed"),
    ("crashed with exit code", "child"),
    ("scheduler died during initialization", "child"),
    ("Received sigquit from a child process", "child"),
    ("SIGQUIT received.", "child"),
    ("Fatal Python error", "crashed"),
    ("Segmentation fault", "crashed"),
    ("terminate called after throwing an instance", "crashed"),
    (NOT_INSTALLED, "missing-module"),
    (": error: ", "arguments"),
)
"""Lines that end a server by themselves, without a traceback; the word only says which way to look at the line."""

_ARGUMENT_ERROR = re.compile(
    r"^(?:sglang serve|sglang|launch_server\.py|__main__\.py|python[\d.]* -m [\w.]+|serve): error: (?P<what>.+)"
)
_TORCH_RANK = re.compile(r"\[Rank (\d+)\]")
_MISSING_MODULE = re.compile(r"No module named '([\w.]+)'")
_PORT = re.compile(r"\('?[^']*'?, (\d+)[,)]|(?:port at|[Pp]ort) (\d+)|:(\d{2,5})\b")
_TAKEN = "(SGLang took it for a repository of the hub)"
_PACKAGES = {
    "cutlass": "nvidia-cutlass-dsl",
    "cv2": "opencv-python-headless",
    "PIL": "pillow",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
}


@dataclass(slots=True)
class Incident:
    """Something fatal that the log tells: a traceback or a line."""

    text: str
    rank: str
    at_s: float | None
    phase: str
    traceback: Traceback | None = None


@dataclass(slots=True)
class _Cause:
    kind: str
    message: str
    advice: str
    follower: bool
    ranks: list[str] = field(default_factory=list)


def is_fatal_line(text: str) -> bool:
    """Whether a line, its prefix taken off, ends the server by itself."""
    for words, way in FATAL_LINES:
        if words in text:
            return way != "arguments" or _ARGUMENT_ERROR.match(text) is not None
    return False


def failures(
    incidents: list[Incident], facts: Mapping[str, str], values: frozenset[str] = frozenset()
) -> tuple[Failure, ...]:
    """The causes, first one first, each with the ranks that reported it.

    Args:
        incidents: everything fatal, in the order of the log.
        facts: what the log told of the server (``mem_fraction_static``, ``candidate_steps``, ...), for the advice.
        values: secrets to mask in the messages.
    """
    found: dict[tuple[str, str], _Cause] = {}
    for incident in incidents:
        cause = _cause(incident, facts)
        same = found.setdefault((cause.kind, _NUMBERS.sub("#", cause.message)), cause)
        if incident.rank and incident.rank not in same.ranks:
            same.ranks.append(incident.rank)
    causes = list(found.values())
    named = [cause for cause in causes if not cause.follower]
    causes = _without_consequences(named) if named else causes[:1]
    return tuple(
        Failure(
            kind=cause.kind,
            message=sanitize(cause.message, values, limit_chars=MESSAGE_CHARS),
            ranks=tuple(sorted(cause.ranks, key=_rank_order)),
            advice=sanitize(cause.advice, values, limit_chars=2 * MESSAGE_CHARS),
        )
        for cause in causes
    )


def _without_consequences(causes: list[_Cause]) -> list[_Cause]:
    """Only the first cause explains itself: NCCL errors, kills and crashes after another cause are its consequences."""
    consequences = {"nccl", "nccl-timeout", "killed", "crashed", "warmup-failed"}
    first, *rest = causes
    return [first, *(cause for cause in rest if cause.kind not in consequences)]


def _rank_order(rank: str) -> list[tuple[str, int]]:
    return [(name, int(number)) for name, number in re.findall(r"([A-Z_]+)(\d{1,9})", rank)]


def _cause(incident: Incident, facts: Mapping[str, str]) -> _Cause:
    traceback = incident.traceback
    if traceback is None:
        argument = _ARGUMENT_ERROR.match(incident.text)
        if argument:
            return _Cause("bad-arguments", argument["what"], _argument_advice(argument["what"]), follower=False)
        return _classified(incident.text, incident, facts)
    # The exception that ended it says least when it was raised "from" the one that knew: ask from the last to the first.
    for message in reversed(traceback.messages):
        cause = _classified(message, incident, facts)
        if cause.kind != "exception":
            return cause
    last = traceback.messages[-1] if traceback.messages else traceback.header or incident.text
    place = traceback.frames[-1].place if traceback.frames else ""
    advice = (
        f"raised in {place}; not a cause this console knows: search SGLang's issues for the message" if place else ""
    )
    return _Cause("exception", last, advice, follower=False)


def _classified(text: str, incident: Incident, facts: Mapping[str, str]) -> _Cause:
    traceback = incident.traceback
    in_draft = traceback is not None and traceback.passes(*_DRAFT_CODE)
    for rule in RULES:
        if rule.draft is not None and traceback is not None and rule.draft is not in_draft:
            continue
        if rule.draft and traceback is None:
            continue
        if rule.pattern.search(text):
            kind, advice = _detailed(rule.kind, rule.advice, text, incident, facts, in_draft=in_draft)
            return _Cause(kind, text, advice, follower=rule.follower)
    return _Cause("exception", text, "", follower=False)


def _detailed(
    kind: str, advice: str, text: str, incident: Incident, facts: Mapping[str, str], *, in_draft: bool
) -> tuple[str, str]:
    if kind == "oom":
        where = _oom_phase(incident, in_draft=in_draft)
        fraction = facts.get("mem_fraction_static", "")
        return f"oom-{where}", OOM_ADVICE[where].format(now=f" (now {fraction})" if fraction else "")
    if kind == "missing-module":
        return kind, _module_advice(text)
    if kind == "port-taken":
        return kind, _port_advice(text, facts)
    if kind == "draft-missing" and (path := facts.get("draft_path") or _quoted(text)):
        return (
            kind,
            f"the drafter {path} is not there: correct --speculative-draft-model-path {_TAKEN}",
        )
    if kind == "model-missing" and (path := _quoted(text)):
        return kind, f"{path} is not there: correct --model-path {_TAKEN}"
    if kind == "draft-shape" and (numbers := _shapes(text)):
        return kind, f"{numbers}: {advice}"
    if kind == "adaptive-tier-too-deep" and facts.get("candidate_steps"):
        deepest = max(facts["candidate_steps"].split(","), key=int)
        return (
            kind,
            f"{advice} (here: --speculative-num-steps {deepest} --speculative-num-draft-tokens {int(deepest) + 1})",
        )
    return kind, advice


def _oom_phase(incident: Incident, *, in_draft: bool) -> str:
    traceback = incident.traceback
    if traceback is not None:
        if traceback.passes(*_GRAPH_CODE):
            return "draft-graph" if in_draft and "target" not in incident.phase else "graph"
        if traceback.passes(*_KV_CODE):
            return "kv-pool"
        if traceback.passes(*_WEIGHT_CODE):
            return "weights"
    phase = incident.phase
    if phase.startswith("graphs"):
        return "draft-graph" if "draft" in phase else "graph"
    if phase.startswith("tier"):
        return "draft-graph"
    if phase.startswith("weights"):
        return "weights"
    return "kv-pool" if phase == "kv_pool" else "serving"


def _argument_advice(what: str) -> str:
    for pattern, advice in ARGUMENT_ADVICE:
        if found := pattern.search(what):
            return advice.format(**found.groupdict())
    return "correct the arguments; see `python -m sglang.launch_server --help` of the installed version"


def _module_advice(text: str) -> str:
    found = _MISSING_MODULE.search(text)
    if found is None:
        return "a Python package is missing in the engine's environment: install SGLang there with all it depends on"
    module = found[1].split(".")[0]
    package = _PACKAGES.get(module, "")
    named = f" (the package is {package})" if package else ""
    return (
        f"the Python module {module} is missing in the engine's environment{named}: install SGLang with all it depends on"
        " into the interpreter that the profile names"
    )


def _port_advice(text: str, facts: Mapping[str, str]) -> str:
    found = _PORT.search(text)
    port = next((group for group in found.groups() if group), "") if found else ""
    named = f"port {port}" if port else "the port"
    stays = (
        "; this server does not end by itself and keeps its GPU memory: stop it first"
        if "bind on address" in text and "startup" in facts
        else ""
    )
    return f"another process holds {named}: end it (`ss -ltnp` names it) or choose another --port{stays}"


def _quoted(text: str) -> str:
    """The path or name that a message of the hub's is about."""
    quoted = [word for word in re.findall(r"'([^']{1,300})'", text) if word not in {"repo_name", "namespace/repo_name"}]
    named = [word for word in quoted if "/" in word and not word.startswith("http")]
    plain = re.search(r"(?:^|: )(\S+) (?:is not a local folder|does not appear to have)", text)
    return named[0] if named else plain[1] if plain else ""


def _shapes(text: str) -> str:
    """The two numbers of a shape message, told apart."""
    if found := re.search(r"\(\d+x(\d+) and (\d+)x\d+\)", text):
        return f"the target delivers {found[1]} values where the drafter takes {found[2]}"
    if found := re.search(r"input\.size\(1\) == weight\.size\(0\) \((\d+) vs\. (\d+)\)", text):
        return f"the target's hidden size is {found[1]}, the drafter's {found[2]}"
    if found := re.search(
        r"param with shape torch\.Size\((\[[\d, ]*\])\).*model is torch\.Size\((\[[\d, ]*\])\)", text
    ):
        return f"the checkpoint has {found[1]}, the server expects {found[2]}"
    return ""


def torch_rank(text: str) -> str:
    """The rank a line of torch's own names in brackets, as SGLang would name it."""
    found = _TORCH_RANK.search(text)
    return f"TP{found[1]}" if found else ""
