"""The speculative flags of a launch, complete and consistent, or a refusal before SGLang crashes on them minutes later.

Rules and versions: SGLang's ``arg_groups/speculative_hook.py`` and ``speculative/adaptive_spec_params.py``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from console.errors import ConsoleError, ExitCode
from profiles.schema import Speculation

ADAPTIVE_SINCE = (0, 5, 11)
SLOTS_SINCE = (0, 5, 13)
"""Before, the adaptive config is one flat object with at least two depths."""
DEPTH_ZERO_SINCE = (0, 5, 14)
DEEPEST_FIRST_UNTIL = (0, 5, 17)
"""Up to here buffers are sized for the initial depth, and a deeper tier crashes at graph capture ("shared logits buffer")."""
CHAIN_ALGORITHMS = frozenset({"EAGLE", "EAGLE3", "NEXTN", "STANDALONE"})
ADAPTIVE_ALGORITHMS = frozenset({"EAGLE", "EAGLE3"})
NEEDS_DRAFTER = frozenset({"EAGLE3", "STANDALONE"})
CONFIG_LIMIT_BYTES = 4 * 1024 * 1024
_NO_ADAPTIVE = ("--enable-dp-attention", "--enable-multi-layer-eagle", "--enable-two-batch-overlap", "--enable-pdmux")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a launch asks of SGLang's speculation; nothing when ``algorithm`` is empty."""

    algorithm: str = ""
    drafter: str = ""
    steps: int | None = None
    """Depth at launch."""
    topk: int | None = None
    draft_tokens: int | None = None
    wanted_depth: int | None = None
    """Depth to set once the engine is ready, when it cannot be the one at launch."""
    candidate_steps: tuple[int, ...] = ()
    adaptive_config: str = ""
    """JSON of the adaptive config; empty without one."""
    warnings: tuple[str, ...] = ()


def plan(speculation: Speculation, given: dict[str, str], version: tuple[int, ...] | None) -> Plan:
    """The plan for a profile's section.

    Args:
        speculation: the profile's section.
        given: the profile's own SGLang arguments; they win.
        version: SGLang's version; ``None`` is taken for a new one.

    Raises:
        ConsoleError: SGLang would crash, or speculate with nothing gained.
    """
    algorithm = (given.get("--speculative-algorithm") or speculation.algorithm).upper()
    if not algorithm or algorithm == "NONE":
        return _without(speculation, given)
    drafter = given.get("--speculative-draft-model-path") or speculation.drafter
    _check_drafter(algorithm, drafter)
    steps = _integer(given, "--speculative-num-steps", speculation.steps)
    topk = _integer(given, "--speculative-eagle-topk", speculation.topk)
    width = _integer(given, "--speculative-num-draft-tokens", speculation.draft_tokens)
    if algorithm not in CHAIN_ALGORITHMS:
        return Plan(algorithm, drafter, steps, topk, width)
    if speculation.candidate_steps and "--speculative-adaptive" not in given:
        adaptive = _adaptive(speculation, algorithm, drafter, steps, topk, given, version)
        if adaptive is not None:
            return adaptive
        warning = "this SGLang has no adaptive depths (0.5.11 and later have): a depth change will restart the engine"
        return _fixed(algorithm, drafter, steps, topk, width, (warning,))
    if "--speculative-adaptive" in given:
        return Plan(algorithm, drafter, steps, topk, width)
    return _fixed(algorithm, drafter, steps, topk, width)


def _without(speculation: Speculation, given: dict[str, str]) -> Plan:
    stray = [flag for flag in given if flag.startswith("--speculative-num") or flag == "--speculative-draft-model-path"]
    if stray:
        raise ConsoleError(
            f"{stray[0]} is given without an algorithm",
            todo='set speculation.algorithm, e.g. "EAGLE3"',
            code=ExitCode.USAGE,
        )
    idle = [name for name in ("drafter", "steps", "candidate_steps") if getattr(speculation, name)]
    return Plan(warnings=(f"speculation.algorithm is empty: speculation.{idle[0]} has no effect",) if idle else ())


def _fixed(
    algorithm: str, drafter: str, steps: int | None, topk: int | None, width: int | None, warnings: tuple[str, ...] = ()
) -> Plan:
    """One depth until a restart: all three numbers or none."""
    if steps is None and topk is None and width is None:
        return Plan(
            algorithm, drafter, warnings=(*warnings, "no depth is given: SGLang chooses steps, topk and draft tokens")
        )
    if steps is None and width is not None and topk in {None, 1}:
        steps = width - 1
    if steps is None:
        raise ConsoleError(
            "speculation.steps is missing",
            why="SGLang crashes on an incomplete set of steps, topk and draft_tokens",
            todo="give steps, or none of the three",
            code=ExitCode.USAGE,
        )
    if steps == 0:
        return Plan(warnings=(*warnings, "depth 0 without prebuilt depths: the engine is launched without speculation"))
    topk = topk or 1
    if topk > 1 and width is None:
        raise ConsoleError(
            f"speculation.draft_tokens is missing with topk {topk}",
            why="only chains (topk 1) have one natural width, steps + 1",
            todo="give draft_tokens, or topk 1",
            code=ExitCode.USAGE,
        )
    if topk == 1 and width not in {None, steps + 1}:
        warnings = (
            *warnings,
            f"with topk 1 SGLang verifies steps + 1 = {steps + 1} tokens: draft_tokens {width} is not used",
        )
    if topk == 1:
        width = steps + 1
    if topk > 1 and width is not None and width > 1 + topk + (steps - 1) * topk * topk:
        warnings = (*warnings, f"draft_tokens {width} is more than a tree of {steps} steps and topk {topk} holds")
    return Plan(algorithm, drafter, steps, topk, width, warnings=warnings)


def _adaptive(
    speculation: Speculation,
    algorithm: str,
    drafter: str,
    steps: int | None,
    topk: int | None,
    given: dict[str, str],
    version: tuple[int, ...] | None,
) -> Plan | None:
    """Prebuilt depths; ``None`` where this version cannot have them."""
    if version is not None and version < ADAPTIVE_SINCE:
        return None
    if algorithm not in ADAPTIVE_ALGORITHMS or topk not in {None, 1}:
        what = f"algorithm {algorithm}" if algorithm not in ADAPTIVE_ALGORITHMS else f"topk {topk}"
        raise ConsoleError(
            f"candidate_steps do not go with {what}",
            why="SGLang changes depth live for EAGLE and EAGLE3 chains (topk 1) only, and turns it off silently elsewhere",
            todo="take candidate_steps out of the profile, or set topk 1",
            code=ExitCode.USAGE,
        )
    warnings = [f"SGLang turns live depth off together with {flag}" for flag in _NO_ADAPTIVE if flag in given]
    depths = sorted(set(speculation.candidate_steps))
    if steps is not None and steps not in depths:
        depths = sorted({*depths, steps})
        warnings.append(f"depth {steps} is added to candidate_steps: the initial depth must be one of them")
    if 0 in depths and version is not None and version < DEPTH_ZERO_SINCE:
        depths.remove(0)
        warnings.append("depth 0 is left out: SGLang before 0.5.14 cannot prebuild it")
    if not any(depths):
        raise ConsoleError(
            "candidate_steps holds no depth above 0", todo="give one, e.g. [0, 1, 3, 5]", code=ExitCode.USAGE
        )
    flat = version is not None and version < SLOTS_SINCE
    if flat and len(depths) < 2:
        return None
    wanted = steps if steps in depths else depths[len(depths) // 2]
    launch = wanted
    if version is not None and version[:3] <= DEEPEST_FIRST_UNTIL and wanted != depths[-1]:
        launch = depths[-1]
        warnings.append(
            f"SGLang up to 0.5.17 must start at the deepest depth: {launch} now, {wanted} once the engine is ready"
        )
    config: dict[str, Any] = {"candidate_steps": depths} if flat else {"1": {"candidate_steps": depths}}
    return Plan(
        algorithm,
        drafter,
        steps=launch,
        topk=1,
        draft_tokens=launch + 1,
        wanted_depth=wanted,
        candidate_steps=tuple(depths),
        adaptive_config=json.dumps(config),
        warnings=tuple(warnings),
    )


def _integer(given: dict[str, str], flag: str, chosen: int | None) -> int | None:
    text = given.get(flag)
    if text is None:
        return chosen
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        raise ConsoleError(
            f"{flag} {text!r} is no whole number", todo="correct engine.args in the profile", code=ExitCode.USAGE
        )
    return int(text)


def _check_drafter(algorithm: str, drafter: str) -> None:
    if not drafter:
        if algorithm in NEEDS_DRAFTER:
            raise ConsoleError(
                f"{algorithm} needs a drafter",
                why="without one SGLang loads the target a second time and crashes",
                todo="set speculation.drafter",
                code=ExitCode.USAGE,
            )
        return
    is_eagle3 = _is_eagle3(Path(drafter).expanduser())
    if algorithm in {"EAGLE", "NEXTN"} and is_eagle3:
        raise ConsoleError(
            f"{drafter} is an EAGLE-3 drafter and the algorithm is {algorithm}",
            why="it would run without an error, accept nothing, and be slower than no speculation",
            todo='set speculation.algorithm to "EAGLE3"',
            code=ExitCode.USAGE,
        )


def _is_eagle3(folder: Path) -> bool:
    """Whether a local folder's config names an EAGLE-3 class; a repository of the hub cannot be asked here."""
    try:
        with (folder / "config.json").open("rb") as file:
            config = json.loads(file.read(CONFIG_LIMIT_BYTES))
    except (OSError, ValueError, RecursionError):
        return False
    names = config.get("architectures") if isinstance(config, dict) else None
    return isinstance(names, list) and any("eagle3" in name.lower() for name in names if isinstance(name, str))
