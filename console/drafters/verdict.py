"""From checks to one verdict, the strongest first; an unknown fact never makes it better."""

from __future__ import annotations

import enum

import msgspec

from console.drafters.answer import Check
from console.drafters.checks import run_checks
from console.drafters.header import Tensor
from console.drafters.layout import bytes_expected
from console.drafters.subject import Drafter, Subject


class Verdict(enum.StrEnum):
    """What can be done with the drafter."""

    INCOMPATIBLE = "incompatible"
    UNREADABLE = "unreadable"
    CONVERT = "convert"
    FINE_TUNE_START = "fine-tune-start"
    RESTART = "restart"
    ONLINE_SWAP = "online-swap"
    SAME = "same"
    UNKNOWN = "unknown"

    @property
    def serves(self) -> bool:
        """Can it be brought into the engine as it is?"""
        return self in {Verdict.RESTART, Verdict.ONLINE_SWAP, Verdict.SAME}


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict, why in one line, what to do next, and every check behind it."""

    verdict: Verdict
    why: str
    todo: str
    checks: tuple[Check, ...]
    bytes_expected: int | None
    notes: tuple[str, ...] = ()


NEXT = {
    Verdict.INCOMPATIBLE: "do not download or serve it with this target",
    Verdict.UNREADABLE: "repair it or download it again, then check once more",
    Verdict.CONVERT: "convert a copy as said; the download itself is never edited",
    Verdict.FINE_TUNE_START: "use its weights to start training for this target; do not serve it as it is",
    Verdict.RESTART: "it fits; bringing it in restarts the engine",
    Verdict.ONLINE_SWAP: "it can be swapped in while the engine runs, guarded and taken back if acceptance falls",
    Verdict.SAME: "nothing to do: this drafter is running",
    Verdict.UNKNOWN: "give what is missing (--target, a readable file, the network) and check again",
}
ESSENTIAL = ("C1", "C3", "C4", "C5", "C6", "C7", "C9", "C10", "C11")
"""Without an answer to one of these nothing good can be said. C7's content is not essential over the network."""


def judge(subject: Subject) -> Judgement:
    """Run the checks and draw the conclusion."""
    checks = run_checks(subject)
    verdict, why = _conclude(subject, checks)
    return Judgement(
        verdict=verdict,
        why=why,
        todo=NEXT[verdict],
        checks=checks,
        bytes_expected=bytes_expected(subject.drafter.facts),
        notes=subject.drafter.weights.notes,
    )


def _conclude(subject: Subject, checks: tuple[Check, ...]) -> tuple[Verdict, str]:
    drafter = subject.drafter
    blocked = [check for check in checks if check.ok is False and check.severity == "block"]
    fatal = [check for check in blocked if not check.mendable and check.id != "C22"]
    if fatal and drafter.facts.kind.is_eagle3 and not drafter.config_fault:
        return Verdict.INCOMPATIBLE, _first(fatal)
    if drafter.config_fault:
        return Verdict.UNREADABLE, drafter.config_fault
    if drafter.weights.unreadable:
        return Verdict.UNREADABLE, drafter.weights.unreadable
    if fatal:
        return Verdict.INCOMPATIBLE, _first(fatal)
    if not drafter.facts.kind.is_eagle3:
        return Verdict.UNKNOWN, _first([check for check in checks if check.id == "C1"])
    if drafter.weights.torch_only:
        return (
            Verdict.CONVERT,
            f"only {drafter.weights.torch_only} is there, which is not opened: save it as safetensors",
        )
    if blocked:
        return Verdict.CONVERT, _first(blocked)
    return _serve(subject, checks)


def _serve(subject: Subject, checks: tuple[Check, ...]) -> tuple[Verdict, str]:
    """Nothing speaks against it: how can it be brought in?"""
    open_questions = [
        check for check in checks if check.ok is None and check.severity == "block" and check.id in ESSENTIAL
    ]
    if subject.identical:
        return Verdict.SAME, "the weights are byte for byte those of the running drafter"
    if open_questions:
        return Verdict.UNKNOWN, _first(open_questions)
    stranger = next((check for check in checks if check.id == "C19" and check.ok is False), None)
    if stranger and _same_geometry(subject, checks):
        return Verdict.FINE_TUNE_START, stranger.message
    if subject.running is None:
        return Verdict.RESTART, "it fits the target; nothing is known of a running drafter"
    difference = difference_to_running(subject.drafter, subject.running)
    if difference:
        return Verdict.RESTART, f"it fits the target, but {difference}"
    return Verdict.ONLINE_SWAP, "same class, tensors, dtypes, vocabulary map and flags as the running drafter"


def _same_geometry(subject: Subject, checks: tuple[Check, ...]) -> bool:
    """Could its weights start a training here? Compared with the running drafter when there is one."""
    if subject.running is None:
        return True
    rope = all(check.ok for check in checks if check.id == "C17")
    return rope and not _different_tensors(subject.drafter, subject.running)


def difference_to_running(drafter: Drafter, running: Drafter) -> str:
    """What the engine fixes at its start and would have to change; empty when nothing."""
    ours, theirs = drafter.facts, running.facts
    fixed = (
        "architecture", "hidden_size", "target_hidden_size", "intermediate_size", "vocab_size", "draft_vocab_size", "heads",
        "kv_heads", "head_dim", "layers", "rope_theta", "rope_scaling", "tie", "quantization", "aux_ids", "n_aux", "fc_norm",
        "norm_before_fc", "norm_output", "fc_bias", "max_position", "q_lora_rank", "kv_lora_rank",
    )  # fmt: skip
    for key in fixed:
        if getattr(ours, key) != getattr(theirs, key):
            return f"{key} is {getattr(ours, key)} and {getattr(theirs, key)} in the running drafter"
    if different := _different_tensors(drafter, running):
        return different
    if drafter.shape("d2t") is not None:
        if drafter.d2t is None or running.d2t is None:
            return "the vocabulary maps (d2t) could not be compared"
        if drafter.d2t != running.d2t:
            return "its draft vocabulary (d2t) differs from the running drafter's"
    return ""


def _different_tensors(drafter: Drafter, running: Drafter) -> str:
    if not drafter.has_header or not running.has_header:
        return "the tensors could not be compared"
    ours, theirs = _geometry(drafter.weights.tensors), _geometry(running.weights.tensors)
    for name in sorted(ours.keys() ^ theirs.keys()):
        return f"{name} is in {'this file' if name in ours else 'the running drafter'} only"
    for name, value in ours.items():
        if value != theirs[name]:
            return f"{name} is {value[0]} {list(value[1])} and {theirs[name][0]} {list(theirs[name][1])} in the running drafter"
    return ""


def _geometry(tensors: dict[str, Tensor]) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items() if name != "t2d"}


def _first(checks: list[Check]) -> str:
    text = f"{checks[0].message} ({checks[0].id})"
    return text if len(checks) == 1 else f"{text}, and {len(checks) - 1} more"
