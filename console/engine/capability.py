"""What the probe will find in an installed SGLang, read from its source.

Nothing of it is imported: that takes a minute and a GPU.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

import msgspec

Signatures = Mapping[str, list[str] | None]
"""``FILE:CLASS.NAME`` below ``sglang/srt`` -> argument names of a method.

``[]`` for an attribute that is there; ``None`` for what is not.
"""

SCHEDULER = "managers/scheduler.py:Scheduler"
PROCESSOR = "managers/scheduler_components/batch_result_processor.py:SchedulerBatchResultProcessor"
MIXIN = "managers/scheduler_output_processor_mixin.py:SchedulerOutputProcessorMixin"
WORKER = "speculative/eagle_worker_v2.py:EAGLEWorkerV2"
DRAFTER = "speculative/eagle_worker_v2.py:EagleDraftWorker"
CONTROLLER = "speculative/adaptive_runtime_state.py:AdaptiveController"
POLICY = "speculative/adaptive_spec_params.py:AdaptiveSpeculativeParams"
TIMER = "utils/device_timer.py:DeviceTimer"
LLAMA = "models/llama_eagle3.py:LlamaForCausalLMEagle3"


class Need(msgspec.Struct, frozen=True):
    """Something the probe does, and what it takes: one of the alternatives, each of them whole.

    An alternative maps a target to the arguments that the probe counts on, in their order; SGLang may have more.
    """

    hook: str
    what: str
    alternatives: tuple[dict[str, tuple[str, ...]], ...]


RESULT = ("self", "result", "batch")
NEEDS = (
    Need(
        "plugins",
        "the framework that loads the probe",
        ({"plugins/hook_registry.py:HookRegistry.register": ("cls", "target", "hook", "hook_type")},),
    ),
    Need("attach", "a place to attach before the event loop", ({f"{SCHEDULER}.run_event_loop": ("self",)},)),
    Need("commands", "commands to all ranks", ({f"{SCHEDULER}.set_internal_state": ("self", "recv_req")},)),
    Need(
        "acceptance",
        "acceptance by position",
        (
            {f"{PROCESSOR}._resolve_spec_v2_tokens": RESULT},
            {f"{MIXIN}._resolve_spec_overlap_tokens": RESULT},
            {f"{MIXIN}._resolve_spec_overlap_token_ids": RESULT},
        ),
    ),
    Need("cycle", "milliseconds of a whole round", ({f"{WORKER}.forward_batch_generation": ("self",)},)),
    Need(
        "stages",
        "milliseconds of draft, verify and extend",
        (
            {
                f"{DRAFTER}.draft": ("self",),
                f"{WORKER}.verify": ("self", "batch"),
                f"{DRAFTER}._draft_extend_for_decode": ("self", "batch", "batch_result"),
            },
        ),
    ),
    Need(
        "device timer",
        "stage times from SGLang's own device timer",
        (
            {
                f"{TIMER}.add_reporter": ("self", "reporter"),
                f"{TIMER}.wrap": ("self", "metadata"),
                f"{TIMER}._intervals": (),
            },
        ),
    ),
    Need(
        "live depth",
        "another depth without a restart",
        (
            {
                f"{POLICY}.get_steps_for_batch": ("self", "batch_size"),
                f"{POLICY}.on_verify_complete": ("self",),
                f"{CONTROLLER}.activate_step_by_batch": ("self", "batch_size"),
                f"{CONTROLLER}._activate": ("self", "speculative_num_steps"),
                f"{CONTROLLER}._states": (),
            },
            {
                f"{CONTROLLER}.on_verify_complete": ("self",),
                f"{CONTROLLER}._activate": ("self", "speculative_num_steps"),
                f"{CONTROLLER}._states": (),
            },
        ),
    ),
    Need(
        "live swap",
        "another drafter without a restart",
        (
            {
                f"{DRAFTER}.draft_runner": (),
                f"{DRAFTER}.hot_token_id": (),
                f"{WORKER}._draft_worker": (),
                f"{LLAMA}.load_weights": ("self", "weights"),
                f"{LLAMA}.hot_token_id": (),
            },
        ),
    ),
)
"""What console/probe hooks or wraps. A test holds it against the source of every SGLang from 0.5.11 to 0.5.23."""


class Capability(msgspec.Struct, frozen=True):
    """What one SGLang offers the probe: by hook, empty or why not."""

    missing: dict[str, str]

    def __getitem__(self, hook: str) -> str:
        return self.missing[hook]

    @property
    def complete(self) -> bool:
        """Everything is there."""
        return not any(self.missing.values())

    @property
    def depth_live(self) -> bool:
        """Depth can be changed in a running engine that has adaptive tiers."""
        return not any(self.missing[hook] for hook in ("plugins", "attach", "commands", "live depth"))

    @property
    def swap_live(self) -> bool:
        """A drafter of the same shape can be exchanged in a running engine."""
        return not any(self.missing[hook] for hook in ("plugins", "attach", "commands", "live swap"))


def targets() -> tuple[str, ...]:
    """Everything that is looked for, in a fixed order."""
    found = (target for need in NEEDS for alternative in need.alternatives for target in alternative)
    return tuple(dict.fromkeys(found))


def examine(package: Path) -> Capability:
    """Read an installed SGLang.

    Args:
        package: its folder ``sglang``.
    """
    return judge(read_signatures(package))


def judge(signatures: Signatures) -> Capability:
    """What these signatures allow."""
    return Capability({need.hook: _missing(need, signatures) for need in NEEDS})


def _missing(need: Need, signatures: Signatures) -> str:
    """Empty when one alternative is whole; else what the one that is nearest to it lacks."""
    lacks = []
    for alternative in need.alternatives:
        lack = [
            text for target, wanted in alternative.items() if (text := _lack(target, wanted, signatures.get(target)))
        ]
        if not lack:
            return ""
        lacks.append(lack)
    return f"no {need.what}: this SGLang has {min(lacks, key=len)[0]}"


def _lack(target: str, wanted: tuple[str, ...], found: list[str] | None) -> str:
    name = target.partition(":")[2]
    if found is None:
        return f"no {name}"
    if tuple(found[: len(wanted)]) != wanted:
        return f"{name}({', '.join(found)}) instead of {name}({', '.join(wanted)})"
    return ""


def read_signatures(package: Path) -> dict[str, list[str] | None]:
    """Look up every target in the source below ``package/srt``. A file that is missing or broken has none."""
    trees: dict[str, ast.Module | None] = {}
    found: dict[str, list[str] | None] = {}
    for target in targets():
        file, _, name = target.partition(":")
        if file not in trees:
            trees[file] = _parse(package / "srt" / file)
        found[target] = _look_up(trees[file], *name.split("."))
    return found


def _parse(path: Path) -> ast.Module | None:
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def _look_up(tree: ast.Module | None, owner: str, name: str) -> list[str] | None:
    """Arguments of a method, or ``[]`` for an attribute that the class sets on itself."""
    for node in tree.body if tree is not None else ():
        if isinstance(node, ast.ClassDef) and node.name == owner:
            for member in node.body:
                if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and member.name == name:
                    arguments = member.args
                    return [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
            return [] if any(_sets(inner, name) for inner in ast.walk(node)) else None
    return None


def _sets(node: ast.AST, name: str) -> bool:
    """Whether this is ``self.NAME`` being assigned."""
    return (
        isinstance(node, ast.Attribute)
        and node.attr == name
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )
