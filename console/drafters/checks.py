"""Checks C1 to C23 of an EAGLE-3 drafter against its target, each with both values named.

An unknown fact gives ``ok = None``: it never counts as good. Severity ``block`` means the server would not start or would draft
nonsense; ``warn`` means it may draft badly; ``info`` decides nothing. What a check rests on is SGLang 0.5.23's loaders, which
drop unknown names and keep missing weights random without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from console.drafters import tensor_checks as tensors
from console.drafters.answer import Check, compare
from console.drafters.facts import LLAMA_CLASS, MLA_CLASS, Kind
from console.drafters.names import trained_for
from console.drafters.subject import Subject


def run_checks(subject: Subject) -> tuple[Check, ...]:
    """Every check that applies, in order of its number."""
    if not subject.drafter.facts.kind.is_eagle3:
        return (*_c1(subject), *tensors.c22(subject), *_c23(subject))
    answers = [check for function in ALL for check in function(subject)]
    return tuple(sorted(answers, key=lambda check: int(check.id[1:])))


def _c1(subject: Subject) -> Iterator[Check]:
    facts = subject.drafter.facts
    name = facts.architecture or "none"
    ok: bool | None = False
    mendable = False
    if facts.kind in {Kind.LLAMA, Kind.MLA}:
        ok, text = True, f"class {name}"
    elif facts.kind is Kind.MISNAMED:
        wanted, mendable = MLA_CLASS if facts.kv_lora_rank else LLAMA_CLASS, True
        text = (
            f'tensor names are EAGLE-3, the class name {name} is not: set "architectures": ["{wanted}"] in config.json'
        )
    elif facts.kind is Kind.SPECULATORS:
        mendable = True
        text = "speculators format: geometry is nested and the class is unknown to SGLang; convert to a flat EAGLE-3 config"
    elif subject.drafter.config_fault:
        ok, text = None, subject.drafter.config_fault
    elif facts.kind is Kind.OTHER:
        text = f"{name} is no EAGLE-3 drafter; an ordinary model can draft with --speculative-algorithm STANDALONE only"
    else:
        ok, text = None, f"this is a {facts.kind} drafter, not EAGLE-3; these checks do not apply to it"
    reference = f"{LLAMA_CLASS} or {MLA_CLASS}"
    yield Check(id="C1", ok=ok, severity="block", message=text, drafter=name, reference=reference, mendable=mendable)


def _c2(subject: Subject) -> Iterator[Check]:
    algorithm = subject.target.algorithm if subject.target else ""
    if not algorithm:
        return
    right = algorithm == "EAGLE3"
    text = (
        "algorithm EAGLE3"
        if right
        else f"the server runs {algorithm}; an EAGLE-3 drafter under it accepts nothing: use EAGLE3"
    )
    yield Check(id="C2", ok=right, severity="block", message=text, drafter="EAGLE3", reference=algorithm)


def _why_unknown(subject: Subject) -> str:
    """Why a fact of the target is not there."""
    if subject.target is None:
        return "the target is not known"
    return f"of the target: {subject.target.problem}" if subject.target.problem else "the target's config does not say"


def _c3(subject: Subject) -> Iterator[Check]:
    theirs = subject.target.hidden_size if subject.target else None
    facts = subject.drafter.facts
    yield compare("C3", facts.fc_input, theirs, what="target hidden size", unknown=_why_unknown(subject))
    if facts.target_hidden_null and facts.kind is Kind.LLAMA:
        text = f'"target_hidden_size": null makes {LLAMA_CLASS} fail at its start: remove the key from config.json'
        yield Check(id="C3", ok=False, severity="block", message=text, drafter="null", mendable=True)


def _c5(subject: Subject) -> Iterator[Check]:
    ours, theirs = subject.drafter.facts.vocab_size, subject.target.vocab_size if subject.target else None
    padded = ours and theirs and ours != theirs and abs(ours - theirs) < 256
    if padded:
        text = f"vocabulary {ours}, the target has {theirs}: padding? make sure both use the same tokenizer"
        yield Check(id="C5", ok=False, severity="warn", message=text, drafter=ours, reference=theirs)
    else:
        yield compare("C5", ours, theirs, what="vocabulary", unknown=_why_unknown(subject))
    t2d = subject.drafter.shape("t2d")
    if t2d is not None and ours and t2d != (ours,):
        text = f"t2d has {t2d[0] if t2d else 0} entries, vocab_size is {ours}"
        yield Check(id="C5", ok=False, severity="block", message=text, drafter=str(t2d), reference=ours)


def captured_states(ids: tuple[int, ...], target_architecture: str) -> tuple[int, ...]:
    """Aux layer ids as "captured before layer i", the form in which two configs can be compared.

    Llama-type targets capture before id + 1; DeepSeek and Kimi targets do so only when ids[0] is 1 (``deepseek_v2.py``).
    """
    deepseek = "deepseek" in target_architecture.lower() or "kimi" in target_architecture.lower()
    shift = 1 if not deepseek or (ids and ids[0] == 1) else 0
    return tuple(index + shift for index in ids)


def _c14(subject: Subject) -> Iterator[Check]:
    facts, target = subject.drafter.facts, subject.target
    if facts.aux_ids_at_top and facts.kind is not Kind.SPECULATORS:
        text = "aux layer ids stand at the top level, where the target does not look: move them into eagle_config"
        yield Check(id="C14", ok=False, severity="block", message=text, drafter=str(list(facts.aux_ids)), mendable=True)
    fc, width = subject.drafter.shape("fc.weight"), facts.fc_input
    if fc and len(fc) == 2 and width and fc[1] % width == 0 and fc[1] // width != facts.n_aux:
        text = f"fc takes {fc[1] // width} hidden states, the config names {facts.n_aux}"
        yield Check(id="C14", ok=False, severity="block", message=text, drafter=fc[1] // width, reference=facts.n_aux)
    if not target or not target.layers or not facts.aux_ids:
        return
    captured = captured_states(facts.aux_ids, target.architecture)
    count = target.layers
    if max(captured) > count:
        text = f"aux layers {list(facts.aux_ids)} reach beyond the target's {count} layers"
        yield Check(id="C14", ok=False, severity="block", message=text, drafter=max(facts.aux_ids), reference=count)
        return
    late = tuple(facts.aux_ids) == (2, count // 2, count - 3) and captured != tuple(facts.aux_ids)
    text = f"aux layers {list(facts.aux_ids)} of {count}"
    if late:
        text += ": this target captures one layer later than these ids were probably meant"
    yield Check(id="C14", ok=not late, severity="warn", message=text, drafter=str(list(facts.aux_ids)), reference=count)


def _c15(subject: Subject) -> Iterator[Check]:
    tp, facts = subject.target.tp if subject.target else None, subject.drafter.facts
    if not tp or not facts.heads or not facts.kv_heads:
        return
    if facts.heads % tp:
        text = f"{facts.heads} heads cannot be split over tp {tp}"
        yield Check(id="C15", ok=False, severity="block", message=text, drafter=facts.heads, reference=tp)
        return
    fits = facts.kv_heads % tp == 0 or tp % facts.kv_heads == 0
    text = f"{facts.heads} heads, {facts.kv_heads} kv heads on tp {tp}" + (
        "" if fits else ": neither divisible nor replicable"
    )
    yield Check(id="C15", ok=fits, severity="warn", message=text, drafter=facts.kv_heads, reference=tp)


def _c16(subject: Subject) -> Iterator[Check]:
    target, window = subject.target, subject.drafter.facts.max_position
    context = (target.context_len or target.max_position) if target else None
    if not window or not context:
        return
    text = f"context window {window}"
    if window < context:
        text += (
            f", {context} in use: acceptance falls beyond it, and SGLang refuses the start unless --context-length"
            " is lowered or SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1"
        )
    yield Check(id="C16", ok=window >= context, severity="warn", message=text, drafter=window, reference=context)


def _c17(subject: Subject) -> Iterator[Check]:
    if subject.running is None:
        return
    ours, theirs = subject.drafter.facts, subject.running.facts
    for what, one, other in (
        ("rope_theta", ours.rope_theta, theirs.rope_theta),
        ("rope_scaling", str(ours.rope_scaling), str(theirs.rope_scaling)),
        ("head_dim", ours.head_dim, theirs.head_dim),
    ):
        if one != other:
            text = f"{what} {one}, the running drafter has {other}"
            yield Check(id="C17", ok=False, severity="warn", message=text, drafter=one, reference=other)
            return
    yield Check(id="C17", ok=True, severity="warn", message="rotary embedding as in the running drafter")


def _c19(subject: Subject) -> Iterator[Check]:
    if subject.target is None:
        return
    yield Check(id="C19", severity="warn", **trained_for(subject.drafter.base_models, subject.target.name))


def _c20(subject: Subject) -> Iterator[Check]:
    facts = subject.drafter.facts
    if facts.kind is not Kind.MLA:
        return
    if facts.layers != 1:
        text = f"{facts.layers} layers; the MLA loader takes exactly 1"
        yield Check(id="C20", ok=False, severity="block", message=text, drafter=facts.layers, reference=1)
    elif facts.q_lora_rank is None:
        text = "q_lora_rank is not set; the MLA loader needs it"
        yield Check(id="C20", ok=False, severity="block", message=text, reference="q_lora_rank")
    else:
        yield Check(id="C20", ok=True, severity="block", message="1 layer, q_lora_rank set", drafter=1, reference=1)


def _c21(subject: Subject) -> Iterator[Check]:
    facts = subject.drafter.facts
    if subject.target and subject.target.rejection_sampling and facts.head_vocab != facts.vocab_size:
        text = "--speculative-use-rejection-sampling requires the draft and target to share one vocab"
        yield Check(
            id="C21", ok=False, severity="block", message=text, drafter=facts.head_vocab, reference=facts.vocab_size
        )


def _c23(subject: Subject) -> Iterator[Check]:
    drafter = subject.drafter
    revision = drafter.revision or None
    short = drafter.revision[:12]
    if drafter.pinned:
        ok, text = True, f"revision {short}"
    elif revision:
        ok, text = False, f"not pinned: now at {short}; drafters get republished in place, name it with @{short}"
    else:
        ok, text = None, "no revision is known for this folder"
    yield Check(id="C23", ok=ok, severity="warn", message=text, drafter=revision)


def _problems(subject: Subject) -> Iterator[Check]:
    """Malformed values: the keys they spoil were read as absent."""
    for text in subject.drafter.facts.problems[:3]:
        yield Check(id="C11", ok=False, severity="block", message=f"config.json: {text}")


ALL: tuple[Callable[[Subject], Iterator[Check]], ...] = (
    _c1,
    _c2,
    _c3,
    tensors.shapes,
    _c5,
    tensors.c7,
    tensors.c8,
    _problems,
    tensors.c12,
    tensors.c13,
    _c14,
    _c15,
    _c16,
    _c17,
    tensors.c18,
    _c19,
    _c20,
    _c21,
    tensors.c22,
    _c23,
)
"""Every check of an EAGLE-3 drafter; one may give several answers or none."""
