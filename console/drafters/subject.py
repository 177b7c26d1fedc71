"""Everything the checks look at, read once: the drafter, the target, the drafter that runs now."""

from __future__ import annotations

from array import array

import msgspec

from console.drafters.facts import DrafterFacts, Kind, TargetFacts, drafter_facts, parse_config
from console.drafters.header import UnreadableError
from console.drafters.source import Checkpoint, File
from console.drafters.vocabulary import read_vector
from console.drafters.weights import Weights, read_weights

CONFIG = "config.json"
CONFIG_READ_BYTES = (1 << 20) + 1


class Drafter(msgspec.Struct, frozen=True, kw_only=True):
    """One drafter checkpoint, read as far as it can be."""

    label: str
    facts: DrafterFacts
    weights: Weights
    config_fault: str = ""
    config_fault_kind: str = ""
    d2t: array[int] | None = None
    t2d: array[int] | None = None
    local: bool = True
    revision: str = ""
    pinned: bool = False
    base_models: tuple[str, ...] = ()
    files: tuple[File, ...] = ()

    @property
    def has_header(self) -> bool:
        """Are tensor names and shapes known?"""
        return bool(self.weights.tensors)

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Shape of a tensor by canonical name."""
        tensor = self.weights.tensors.get(name)
        return tensor.shape if tensor else None


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The question: does this drafter fit, and how could it be brought in?"""

    drafter: Drafter
    target: TargetFacts | None = None
    running: Drafter | None = None
    identical: bool | None = None
    """The weights are byte for byte those of the running drafter."""


def read_drafter(checkpoint: Checkpoint) -> Drafter:
    """Read config, headers and the vocabulary map. Raises only what the hub raises."""
    weights = read_weights(checkpoint)
    fault = kind = ""
    try:
        config = parse_config(checkpoint.read(CONFIG, 0, CONFIG_READ_BYTES))
    except UnreadableError as error:
        config, fault, kind = {}, str(error), error.kind
    facts = drafter_facts(config, frozenset(weights.tensors))
    if fault:
        facts = msgspec.structs.replace(facts, kind=Kind.OTHER)
    return Drafter(
        label=checkpoint.label,
        facts=facts,
        weights=weights,
        config_fault=fault,
        config_fault_kind=kind,
        d2t=read_vector(checkpoint, weights, "d2t"),
        t2d=read_vector(checkpoint, weights, "t2d"),
        local=checkpoint.path is not None,
        revision=checkpoint.revision,
        pinned=checkpoint.pinned,
        base_models=checkpoint.base_models() or ((facts.verifier,) if facts.verifier else ()),
        files=checkpoint.files,
    )
