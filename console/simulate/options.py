"""The command line of the simulated engine: SGLang's own flags, and a few ``--sim-`` ones."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass
from pathlib import Path

from console.simulate.faults import Faults, parse_faults

DEFAULT_TIERS: dict[int, tuple[int, ...]] = {1: (1, 3, 5, 7), 8: (0, 1, 3), 32: (0, 1), 64: (0,)}
"""SGLang's table of adaptive depths by batch size when no config names one."""


class OptionError(Exception):
    """A flag SGLang would refuse; the process ends with exit code 2 as argparse does."""


@dataclass(frozen=True)
class Tiers:
    """Adaptive speculation: candidate depths by batch slot, and the policy's constants."""

    slots: dict[int, tuple[int, ...]]
    warmup_batches: int = 10
    update_interval: int = 5
    ema_alpha: float = 0.2
    up_hysteresis: float = 0.0
    down_hysteresis: float = -0.25

    @property
    def steps(self) -> tuple[int, ...]:
        """Every depth with prebuilt state, ascending."""
        return tuple(sorted({step for steps in self.slots.values() for step in steps}))


@dataclass(frozen=True)
class Options:
    """One launch of the simulated engine, resolved the way SGLang resolves it."""

    argv: tuple[str, ...]
    model: str
    served_name: str
    revision: str | None
    tp: int
    host: str
    port: int
    algorithm: str
    drafter: str
    depth: int
    topk: int
    draft_tokens: int
    tiers: Tiers | None
    attention_backend: str
    attention_mode: str
    max_running: int
    max_total_tokens: int
    context_length: int
    decode_log_interval: int
    metrics: bool
    device_timer: bool
    api_key: str | None
    admin_key: str | None
    probe_dir: Path | None
    probe: bool
    policy: bool
    """Whether SGLang's adaptive policy moves the depth."""
    state_file: Path | None
    clients: str
    speed: float
    seed: int
    faults: Faults
    exit_code: int

    @property
    def speculative(self) -> bool:
        """Whether the engine drafts at all."""
        return bool(self.algorithm)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="console.simulate", allow_abbrev=False, description=__doc__)
    add = parser.add_argument
    add("--config", type=Path, help="file of further flags; those of the command line win")
    add("--model-path", "--model", default="sim/kimi-k2.5")
    add("--served-model-name")
    add("--revision")
    add("--tp-size", "--tp", "--tensor-parallel-size", dest="tp", type=int, default=1)
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=30000)
    add("--speculative-algorithm", default="")
    add("--speculative-draft-model-path", "--speculative-draft-model", dest="drafter", default="")
    add("--speculative-num-steps", dest="steps", type=int)
    add("--speculative-eagle-topk", dest="topk", type=int)
    add("--speculative-num-draft-tokens", dest="draft_tokens", type=int)
    add("--speculative-adaptive", action="store_true")
    add("--speculative-adaptive-config", type=Path)
    add("--speculative-attention-mode", choices=("prefill", "decode"), default="prefill")
    add("--attention-backend", default="fa3")
    add("--max-running-requests", type=int)
    add("--max-total-tokens", type=int, default=524_288)
    add("--context-length", type=int, default=131_072)
    add("--decode-log-interval", type=int, default=40)
    add("--enable-metrics", action="store_true")
    add("--api-key")
    add("--admin-api-key")
    sim = parser.add_argument_group("simulation")
    sim.add_argument("--sim-no-probe", action="store_true", help="no probe feed even when its folder is given")
    sim.add_argument("--sim-no-policy", action="store_true", help="SGLang's adaptive policy leaves the depth alone")
    sim.add_argument("--sim-clients", default=os.environ.get("SGLANG_SIM_CLIENTS", "auto"), help="auto, none or N")
    sim.add_argument("--sim-speed", type=float, default=float(os.environ.get("SGLANG_SIM_SPEED", "1")))
    sim.add_argument("--sim-seed", type=int, default=20)
    sim.add_argument("--sim-state", type=Path, help="state file the simulated GPUs follow [probe folder]")
    sim.add_argument("--sim-fault", action="append", default=[], metavar="KIND[:ARG]")
    return parser


def parse(argv: list[str], env: dict[str, str]) -> Options:
    """Resolve a command line as SGLang would; flags it does not know are ignored.

    Raises:
        OptionError: for a combination SGLang refuses.
        SystemExit: from argparse, exit code 2, as SGLang's own parser.
    """
    parser = _parser()
    args, _ = parser.parse_known_args(argv)
    if args.config:
        args, _ = parser.parse_known_args([*_config_words(args.config), *argv])
    faults = parse_faults([*args.sim_fault, *filter(None, env.get("SGLANG_SIM_FAULTS", "").split(","))])
    algorithm = args.speculative_algorithm.upper()
    algorithm = "EAGLE" if algorithm == "NEXTN" else algorithm
    tiers = _tiers(args.speculative_adaptive_config) if algorithm and args.speculative_adaptive else None
    depth, topk, width = _depth(args, algorithm, tiers)
    folder = env.get("SGLANG_CONSOLE_PROBE_DIR", "")
    probe_dir = Path(folder) if folder else None
    return Options(
        argv=tuple(argv),
        model=args.model_path,
        served_name=args.served_model_name or args.model_path,
        revision=args.revision,
        tp=args.tp,
        host=args.host,
        port=args.port,
        algorithm=algorithm,
        drafter=args.drafter if algorithm else "",
        depth=depth,
        topk=topk,
        draft_tokens=width,
        tiers=tiers,
        attention_backend=args.attention_backend,
        attention_mode=args.speculative_attention_mode,
        max_running=args.max_running_requests or (48 if algorithm else 256),
        max_total_tokens=args.max_total_tokens,
        context_length=args.context_length,
        decode_log_interval=args.decode_log_interval,
        metrics=args.enable_metrics,
        device_timer=env.get("SGLANG_ENABLE_METRICS_DEVICE_TIMER", "").lower() in {"1", "true", "yes"},
        api_key=args.api_key,
        admin_key=args.admin_api_key,
        probe_dir=probe_dir,
        probe=probe_dir is not None and not args.sim_no_probe,
        policy=tiers is not None and not args.sim_no_policy,
        state_file=args.sim_state or (probe_dir / "simulated-engine.json" if probe_dir else None),
        clients=args.sim_clients,
        speed=max(args.sim_speed, 0.01),
        seed=args.sim_seed,
        faults=faults,
        exit_code=int(faults.argument("exit_code", 0)),
    )


def _config_words(path: Path) -> list[str]:
    """The flags of a ``--config`` file. SGLang reads YAML; here JSON, which is YAML, and plain ``key: value`` lines."""
    try:
        text = path.read_text()
    except OSError as error:
        raise OptionError(f"config file {path}: {error.strerror}") from error
    try:
        values = json.loads(text)
    except ValueError:
        pairs = (line.partition(":") for line in text.splitlines() if ":" in line and not line.startswith("#"))
        values = {key.strip(): value.strip() for key, _, value in pairs}
    if not isinstance(values, dict):
        raise OptionError(f"config file {path} is no mapping")
    return [word for key, value in values.items() for word in (f"--{key}", str(value))]


def _depth(args: argparse.Namespace, algorithm: str, tiers: Tiers | None) -> tuple[int, int, int]:
    """Depth, topk and verify width by SGLang's rules (all three, none, or adaptive)."""
    if not algorithm:
        return 0, 1, 1
    if tiers:
        steps = tiers.steps
        depth = args.steps if args.steps is not None else steps[len(steps) // 2]
        if depth not in steps:
            raise OptionError(f"speculative_num_steps={depth} is not one of candidate_steps={list(steps)}")
        return depth, 1, depth + 1
    if args.steps is None:
        if args.topk is not None or args.draft_tokens is not None:
            raise OptionError("speculative_eagle_topk and speculative_num_draft_tokens need speculative_num_steps")
        return 3, 1, 4
    if args.topk is None:
        raise OptionError("'>' not supported between instances of 'NoneType' and 'int'")
    width = args.steps + 1 if args.topk == 1 else args.draft_tokens or args.steps + 1
    return args.steps, args.topk, width


def _tiers(config: Path | None) -> Tiers:
    """Read an adaptive config: batch slots are integer keys, other keys are defaults below each slot."""
    if config is None:
        return Tiers(DEFAULT_TIERS)
    try:
        raw = json.loads(config.read_text())
    except (OSError, ValueError) as error:
        raise OptionError(f"speculative_adaptive_config {config}: {error}") from error
    defaults = {key: value for key, value in raw.items() if not key.isdigit()}
    slots = {int(key): {**defaults, **value} for key, value in raw.items() if key.isdigit()} or {1: defaults}
    try:
        steps = {batch: tuple(int(step) for step in slot["candidate_steps"]) for batch, slot in slots.items()}
    except (KeyError, TypeError) as error:
        raise OptionError(f"speculative_adaptive_config {config}: candidate_steps is missing") from error
    first = slots[min(slots)]
    names = ("warmup_batches", "update_interval", "ema_alpha", "up_hysteresis", "down_hysteresis")
    return Tiers(steps, **{name: first[name] for name in names if name in first})
