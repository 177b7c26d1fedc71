"""Environment variables that decide speed: what was asked for, what the launcher got, what each worker really has. Pure.

The launcher's environment is the one it was started with (``/proc/PID/environ``); a worker's comes from its probe, because its
process title wipes the file. Between the two SGLang itself changes some variables, which is no fault and is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

PREFIXES = ("NCCL_", "CUDA_", "SGLANG_", "TORCH_", "VLLM_", "TRTLLM_", "CUTE_DSL_", "OMP_")
"""Variables that are looked at besides those the profile names."""
WORKER_PREFIXES = ("NCCL_", "CUDA_", "SGLANG_")
"""What a worker's probe reports."""
BY_SGLANG = {
    # SGLang 0.5.23, entrypoints/engine.py and arg_groups/parallel_hook.py: set in the launcher before the workers are spawned.
    "NCCL_CUMEM_ENABLE": "0 unless it is set; 1 with symmetric memory",
    "NCCL_NVLS_ENABLE": "0 unless it is set or --enable-nccl-nvls is",
    "NCCL_GRAPH_MIXING_SUPPORT": "0 with decode context parallelism",
    "CUDA_DEVICE_MAX_CONNECTIONS": "always 8",
    "NCCL_MNNVL_ENABLE": "1 unless it is set, on several nodes with NVLink between them",
    "NCCL_GRAPH_REGISTER": "0 unless it is set, in some parallel modes",
    "TRTLLM_ENABLE_PDL": "1 unless it is 0",
    "SGLANG_RUN_ID": "another one at each start",
}
BY_CONSOLE = {
    "SGLANG_ENABLE_METRICS_DEVICE_TIMER": "engine.device_timer of the profile",
    "SGLANG_CONSOLE_PROBE_DIR": "where the probe meets the agent",
}
HIDDEN = "***"
VALUE_LIMIT = 512
"""Characters the probe reports of a value."""


class Worker(msgspec.Struct, frozen=True):
    """One rank's value; ``None``: it has no such variable."""

    rank: int
    value: str | None = None


class Variable(msgspec.Struct, frozen=True, omit_defaults=True):
    """One variable across the engine's processes."""

    name: str
    asked: str = ""
    """set, unset or inherit, by the profile; empty: the profile does not speak of it."""
    wanted: str | None = None
    """The value asked for."""
    launcher: str | None = None
    workers: tuple[Worker, ...] = ()
    """Of the ranks that report variables of this name; empty: none does."""
    by: str = ""
    """Who else sets it, and to what: "SGLang: always 8"."""
    differences: tuple[str, ...] = ()
    """What is not as it was asked for, in words; empty when all is well."""


class Matrix(msgspec.Struct, frozen=True, omit_defaults=True):
    """All of them, with the reasons for what is not known."""

    variables: tuple[Variable, ...] = ()
    ranks: tuple[int, ...] = ()
    launcher_why: str = ""
    """Why there is nothing of the launcher; empty when there is."""
    workers_why: str = ""
    profile: str = ""

    @property
    def differences(self) -> tuple[str, ...]:
        """Every difference, in the order of the variables."""
        return tuple(words for variable in self.variables for words in variable.differences)


def matrix(
    *,
    profile: str = "",
    to_set: Mapping[str, str] | None = None,
    unset: Iterable[str] = (),
    inherit: Iterable[str] = (),
    launcher: Mapping[str, str] | None = None,
    workers: Mapping[int, Mapping[str, str]] | None = None,
    launcher_why: str = "",
    workers_why: str = "",
) -> Matrix:
    """Compare what was asked for with what there is.

    Args:
        profile: name of the profile that asked.
        to_set: variables the profile sets.
        unset: variables it takes away.
        inherit: variables it wants to arrive.
        launcher: the launcher's environment, masked; ``None``: it cannot be read.
        workers: by rank, what its probe reports, masked; empty without a probe.
        launcher_why: why there is nothing of the launcher.
        workers_why: why there is nothing of the workers.
    """
    to_set, workers = to_set or {}, workers or {}
    asked = {**dict.fromkeys(inherit, "inherit"), **dict.fromkeys(unset, "unset"), **dict.fromkeys(to_set, "set")}
    names = {name for seen in (launcher or {}, *workers.values()) for name in seen if name.startswith(PREFIXES)}
    found = [
        _variable(name, asked.get(name, ""), to_set.get(name), launcher, workers)
        for name in sorted(names | asked.keys())
    ]
    return Matrix(tuple(found), tuple(sorted(workers)), launcher_why, workers_why, profile)


def _variable(
    name: str,
    asked: str,
    wanted: str | None,
    launcher: Mapping[str, str] | None,
    workers: Mapping[int, Mapping[str, str]],
) -> Variable:
    reported = name.startswith(WORKER_PREFIXES)
    ranks = tuple(Worker(rank, workers[rank].get(name)) for rank in sorted(workers)) if reported else ()
    start = launcher.get(name) if launcher is not None else None
    words = [] if launcher is None else _launcher_words(name, asked, wanted, start)
    words += _worker_words(name, asked, wanted if launcher is None else start, ranks, known=launcher is not None)
    return Variable(name, asked, wanted, start, ranks, _author(name, asked, start, ranks, launcher), tuple(words))


def _author(
    name: str, asked: str, start: str | None, ranks: Sequence[Worker], launcher: Mapping[str, str] | None
) -> str:
    """Who else sets it, and to what."""
    if name in BY_SGLANG:
        return f"SGLang: {BY_SGLANG[name]}"
    if name in BY_CONSOLE and asked != "set":
        return f"console: {BY_CONSOLE[name]}"
    added = launcher is not None and start is None and bool(ranks) and all(worker.value is not None for worker in ranks)
    return "SGLang: set at its start" if added else ""


def _launcher_words(name: str, asked: str, wanted: str | None, start: str | None) -> list[str]:
    """Where the launcher is not as the profile says: the profile was changed after the launch, or the agent's shell differs."""
    if asked == "set" and start is None:
        return [f"the launcher lacks {name}, which the profile sets"]
    if asked == "set" and not same(start, wanted):
        return [f"the launcher has {name}={start}, the profile sets {wanted}"]
    if asked == "unset" and start is not None:
        return [f"the launcher has {name}={start}, the profile unsets it"]
    if asked == "inherit" and start is None:
        return [f"{name} was to be inherited and is not there"]
    return []


def _worker_words(name: str, asked: str, start: str | None, ranks: Sequence[Worker], *, known: bool) -> list[str]:
    """Where workers differ from the launcher or from one another.

    What all of them have and the launcher was started without, SGLang has set before it spawned them: no difference.
    """
    if not ranks:
        return []
    values = [worker.value for worker in ranks]
    alike = all(same(value, values[0]) for value in values)
    if alike and (start is None or not (known or asked == "set")):
        return []
    reference = _commonest(values) if start is None else start
    groups: dict[str | None, list[int]] = {}
    for worker in ranks:
        if not same(worker.value, reference):
            groups.setdefault(worker.value, []).append(worker.rank)
    note = f" (SGLang: {BY_SGLANG[name]})" if name in BY_SGLANG else ""
    return [_difference(name, value, reference, who, len(ranks)) + note for value, who in groups.items()]


def _difference(name: str, value: str | None, reference: str | None, who: Sequence[int], count: int) -> str:
    every = len(who) == count > 1
    subject = "every worker" if every else f"worker{'s' if len(who) > 1 else ''} {_ranks(who)}"
    one = every or len(who) == 1
    if value is None:
        return f"{subject} {'lacks' if one else 'lack'} {name}"
    beside = "which the others lack" if reference is None else f"not {reference}"
    return f"{subject} {'has' if one else 'have'} {name}={value}, {beside}"


def same(one: str | None, other: str | None) -> bool:
    """Whether two values as they are shown can be one: a masked one says nothing, and the probe shortens long ones."""
    if one is None or other is None:
        return one is other
    return HIDDEN in (one, other) or _reported(one) == _reported(other)


def _reported(value: str) -> str:
    """A value in the probe's writing."""
    return "".join(char if char.isprintable() else "?" for char in value)[:VALUE_LIMIT]


def _commonest(values: Sequence[str | None]) -> str | None:
    return max(values, key=values.count)


def _ranks(ranks: Sequence[int]) -> str:
    """0, 2 to 5: ranks in a row are joined."""
    parts: list[list[int]] = []
    for rank in ranks:
        if parts and rank == parts[-1][-1] + 1:
            parts[-1].append(rank)
        else:
            parts.append([rank])
    return ", ".join(f"{part[0]} to {part[-1]}" if len(part) > 2 else ", ".join(map(str, part)) for part in parts)
