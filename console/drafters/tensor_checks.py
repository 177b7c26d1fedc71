"""The checks that need the tensors: shapes, what is missing or strange, the vocabulary map, dtypes, sizes."""

from __future__ import annotations

from collections.abc import Iterator

from console.drafters.answer import Check
from console.drafters.facts import MLA_CLASS, Kind
from console.drafters.header import gigabytes
from console.drafters.layout import FUSED, Shape, bytes_expected, check_of, expected, fused, is_skipped, optional
from console.drafters.quantised import accompanies, carried, holds
from console.drafters.subject import Subject
from console.drafters.vocabulary import TYPE_CODES, fault_of

SHAPE_TITLES = {"C4": "fc", "C6": "lm_head", "C9": "attention", "C10": "MLP", "C13": "embedding"}


def shapes(subject: Subject) -> Iterator[Check]:
    """C4, C6, C9, C10, C13 and the shapes of C11: every tensor against what the config implies."""
    drafter = subject.drafter
    required = expected(drafter.facts)
    if not drafter.has_header:
        for identity in ("C4", "C6", "C9", "C10", "C11"):
            yield Check(
                id=identity, ok=None, severity="block", message="the tensors are unknown: no header could be read"
            )
        return
    yield _missing(subject, required)
    yield from _skipped(subject)
    sizes = _Sizes(subject, {**optional(drafter.facts), **fused(required), **required})
    for identity in ("C4", "C6", "C9", "C10", "C11", "C13"):
        special = _lm_head(subject) if identity == "C6" else None
        if found := special or sizes.answer(identity):
            yield found


class _Sizes:
    """Every tensor that is there against the shape wanted, sorted by the check that judges it."""

    def __init__(self, subject: Subject, wanted: dict[str, Shape | None]) -> None:
        drafter = subject.drafter
        have = carried(drafter.weights.tensors)
        self.wrong: dict[str, list[tuple[str, Shape, Shape]]] = {}
        self.unknown: dict[str, str] = {}
        self.judged: set[str] = set()
        for name, shape in wanted.items():
            if (tensor := have.get(name)) is None or name in {"d2t", "t2d"}:
                continue
            identity = check_of(name)
            self.judged.add(identity)
            if shape is None:
                self.unknown.setdefault(identity, name)
            elif not holds(tensor, shape, quantised=bool(drafter.facts.quantization)):
                self.wrong.setdefault(identity, []).append((name, tensor.shape, shape))

    def answer(self, identity: str) -> Check | None:
        """What is wrong, else what cannot be told, else that it fits; ``None`` without such a tensor."""
        if identity in self.wrong:
            name, have, shape = self.wrong[identity][0]
            more = f" (and {len(self.wrong[identity]) - 1} more)" if len(self.wrong[identity]) > 1 else ""
            text = f"{name} is {list(have)}, the config asks for {list(shape)}{more}"
            mine, theirs = str(list(have)), str(list(shape))
            return Check(id=identity, ok=False, severity="block", message=text, drafter=mine, reference=theirs)
        if identity in self.unknown:
            text = f"the config does not say how large {self.unknown[identity]} has to be"
            return Check(id=identity, ok=None, severity="block", message=text)
        if identity in self.judged and identity != "C11":
            return Check(id=identity, ok=True, severity="block", message=f"{SHAPE_TITLES[identity]} as the config says")
        return None


def _skipped(subject: Subject) -> Iterator[Check]:
    """C11: names that this class's loader does not know although the other one does."""
    drafter = subject.drafter
    skipped = [name for name in drafter.weights.names_on_disk if is_skipped(name, drafter.facts.kind)]
    if skipped:
        text = f"{len(skipped)} tensors are named like {skipped[0]}, which {MLA_CLASS} skips: drop the prefix in a copy"
        yield Check(id="C11", ok=False, severity="block", message=text, drafter=skipped[0], mendable=True)


def _lm_head(subject: Subject) -> Check | None:
    """A head that is there while the config says it is borrowed, or the other way round."""
    drafter, facts = subject.drafter, subject.drafter.facts
    have = drafter.shape("lm_head.weight")
    if have is None:
        if misplaced := drafter.shape("model.lm_head.weight"):
            text = (
                "lm_head is named model.lm_head.weight, which SGLang does not know: rename it, or the head stays random"
            )
            value = str(list(misplaced))
            return Check(id="C6", ok=False, severity="block", message=text, drafter=value, mendable=True)
        if facts.tie and facts.is_reduced:
            reduced, full = facts.draft_vocab_size, facts.vocab_size
            text = f"the head is tied to an embedding of {full} tokens, the draft vocabulary has {reduced}"
            return Check(id="C6", ok=False, severity="block", message=text, drafter=reduced, reference=full)
        if facts.kind is Kind.LLAMA and not facts.tie and not facts.head_key:
            text = (
                "lm_head borrowed from the target, but SGLang 0.5.23's Llama loader fails when draft_vocab_size is not in the"
                ' config at all: add "draft_vocab_size": null'
            )
            return Check(id="C6", ok=False, severity="warn", message=text, drafter="absent", reference="null")
        if facts.shares_head:
            how = "tied to the embedding" if facts.tie else "borrowed from the target (draft_vocab_size is not set)"
            return Check(id="C6", ok=True, severity="block", message=f"lm_head {how}")
        text = "lm_head.weight is missing while draft_vocab_size is set; the server would start with random weights"
        return Check(
            id="C6", ok=False, severity="block", message=text, drafter="missing", reference=facts.draft_vocab_size
        )
    rows = have[0] if have else 0
    if facts.draft_vocab_size is None and not facts.tie and facts.vocab_size and rows != facts.vocab_size:
        entries = (drafter.shape("d2t") or (0,))[0]
        mend = entries == rows
        advice = (
            f'set "draft_vocab_size": {rows} in config.json' if mend else "and no d2t of that length says which tokens"
        )
        text = f"lm_head has {rows} rows, vocab_size is {facts.vocab_size} and draft_vocab_size is not set: {advice}"
        return Check(
            id="C6", ok=False, severity="block", message=text, drafter=rows, reference=facts.vocab_size, mendable=mend
        )
    return None


def _missing(subject: Subject, required: dict[str, Shape | None]) -> Check:
    """C11: what the loader would leave random."""
    have = set(carried(subject.drafter.weights.tensors))
    for whole, parts in FUSED.items():
        for name in list(have):
            if f".{whole}." in f".{name}":
                have |= {name.replace(whole, part) for part in parts}
    gone = sorted(name for name in required if name not in have and check_of(name) != "C6")
    if not gone:
        return Check(id="C11", ok=True, severity="block", message=f"all {len(required)} required tensors are there")
    text = f"missing: {', '.join(gone[:8])}{' ...' if len(gone) > 8 else ''}; SGLang would keep random weights there in silence"
    if any(".experts." in name for name in have):
        text += " (the file holds a mixture of experts; SGLang's EAGLE-3 loaders are dense)"
    return Check(
        id="C11", ok=False, severity="block", message=text, drafter=f"{len(gone)} missing", reference=len(required)
    )


def c7(subject: Subject) -> Iterator[Check]:
    """The map from draft tokens to the target's tokens."""
    drafter, facts = subject.drafter, subject.drafter.facts
    vocab, reduced, entries = facts.vocab_size, facts.draft_vocab_size, drafter.shape("d2t")
    ok: bool | None = False
    mine: str | int | None = None
    mendable = False
    if not drafter.has_header or vocab is None:
        ok, text = None, "the vocabulary map is not known"
    elif reduced is not None and reduced > vocab:
        mine, text = reduced, f"draft_vocab_size {reduced} is more than the vocabulary of {vocab}"
    elif entries is None and (reduced is None or reduced == vocab):
        ok, text = True, "full vocabulary, no d2t needed"
    elif entries is None:
        mine, text = "missing", f"d2t is missing: {reduced} draft tokens would stand for tokens 0..{reduced} of {vocab}"
    elif facts.head_vocab is not None and entries != (facts.head_vocab,):
        mine = entries[0] if len(entries) == 1 else str(list(entries))
        text = f"d2t has {mine} entries, the draft vocabulary {facts.head_vocab}"
        mendable = reduced is None and (drafter.shape("lm_head.weight") or (0,))[0] == mine
    elif drafter.d2t is None and drafter.local:
        text = _d2t_dtype(drafter.weights.tensors["d2t"].dtype)
    elif drafter.d2t is None:
        yield Check(
            id="C7", ok=None, severity="warn", message="d2t has the right length; its content is not read remotely"
        )
        return
    else:
        fault = fault_of(drafter.d2t, vocab, drafter.t2d)
        ok, text = not fault, f"d2t: {fault}" if fault else f"d2t maps {len(drafter.d2t)} tokens"
    yield Check(
        id="C7", ok=ok, severity="block", message=text, drafter=mine, reference=facts.head_vocab, mendable=mendable
    )


def _d2t_dtype(dtype: str) -> str:
    """Why the map's values could not be taken: SGLang adds them to int64 positions, which torch does for few types."""
    if dtype in TYPE_CODES:
        return "d2t could not be read"
    return f"d2t is {dtype}; signed integers are needed" + (", torch does not add this type" if dtype[0] == "U" else "")


def c8(subject: Subject) -> Iterator[Check]:
    """The mask t2d against the map d2t."""
    drafter = subject.drafter
    if drafter.t2d is None or drafter.d2t is None:
        return
    marked = {index for index, flag in enumerate(drafter.t2d) if flag}
    mapped = {index + offset for index, offset in enumerate(drafter.d2t)}
    ok = marked == mapped
    text = (
        "t2d and d2t name the same tokens"
        if ok
        else f"t2d marks {len(marked)} tokens, d2t {len(mapped)}, {len(marked ^ mapped)} differ"
    )
    yield Check(id="C8", ok=ok, severity="warn", message=text, drafter=len(marked), reference=len(mapped))


def c12(subject: Subject) -> Iterator[Check]:
    """Names SGLang drops in silence."""
    drafter = subject.drafter
    if not drafter.has_header:
        return
    required = expected(drafter.facts)
    known = {*required, *optional(drafter.facts), *fused(required)}
    strange = sorted(name for name in drafter.weights.tensors if name not in known)
    if drafter.facts.quantization:
        strange = [name for name in strange if not accompanies(name, known)]
    text = (
        f"not used by SGLang: {', '.join(strange[:5])}{' ...' if len(strange) > 5 else ''}"
        if strange
        else "no unexpected tensors"
    )
    yield Check(id="C12", ok=not strange, severity="warn", message=text, drafter=len(strange), reference=0)


def c13(subject: Subject) -> Iterator[Check]:
    """The embedding: needed, or in the way."""
    drafter, facts = subject.drafter, subject.drafter.facts
    if not drafter.has_header:
        return
    has = drafter.shape("embed_tokens.weight") is not None
    if facts.own_embedding and not has:
        text = (
            f"embed_tokens is needed: target hidden {facts.target_hidden_size} is not the drafter's {facts.hidden_size}"
        )
        yield Check(
            id="C13", ok=False, severity="block", message=text, drafter="missing", reference="embed_tokens.weight"
        )
    elif has and not facts.own_embedding:
        text = "the file carries embed_tokens; the server uses the target's, a live swap must leave it out"
        yield Check(id="C13", ok=True, severity="info", message=text)


def c18(subject: Subject) -> Iterator[Check]:
    """Dtypes the loader takes."""
    drafter, facts = subject.drafter, subject.drafter.facts
    if not drafter.has_header:
        return
    used = sorted({t.dtype for name, t in drafter.weights.tensors.items() if name not in {"d2t", "t2d"}})
    shown = "/".join(used)
    target_dtype = subject.target.dtype if subject.target else ""
    if any(name.startswith(("F8", "F4")) for name in used) and not facts.quantization:
        text = f"{shown} weights without a quantization_config"
    elif not set(used) <= {"BF16", "F16", "F32"} and not facts.quantization:
        text = f"dtype {shown} is no float type the loader takes without a quantization_config"
    elif used == ["F16"] and "bfloat16" in target_dtype:
        text = "float16 drafter, bfloat16 target: it is cast, small weights may be lost"
    else:
        yield Check(
            id="C18", ok=True, severity="warn", message=f"dtype {shown}", drafter=shown, reference=target_dtype or None
        )
        return
    yield Check(
        id="C18",
        ok=False,
        severity="warn",
        message=text,
        drafter=shown,
        reference=target_dtype or facts.quantization or None,
    )


def c22(subject: Subject) -> Iterator[Check]:
    """Size against the config; a file that is cut short."""
    weights = subject.drafter.weights
    if weights.unreadable:
        yield Check(id="C22", ok=False, severity="block", message=weights.unreadable, drafter=weights.unreadable_kind)
        return
    wanted = bytes_expected(subject.drafter.facts)
    if not weights.tensors or wanted is None:
        return
    slack = wanted // 50
    ok = abs(weights.data_bytes - wanted) <= slack
    text = f"{gigabytes(weights.data_bytes)} of tensors" + ("" if ok else f", the config implies {gigabytes(wanted)}")
    yield Check(id="C22", ok=ok, severity="info", message=text, drafter=weights.data_bytes, reference=wanted)
