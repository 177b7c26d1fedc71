"""The profile as TOML holds it. Unknown keys are refused with the nearest known one; see :mod:`profiles.store`."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Positive = Annotated[float, msgspec.Meta(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Depth = Annotated[int, msgspec.Meta(ge=0, le=64)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Base of every section."""


class Environment(Section, frozen=True):
    """Environment of the engine. What is in neither list is inherited from the agent."""

    set: dict[str, str] = {}
    unset: tuple[str, ...] = ()
    inherit: tuple[str, ...] = ()
    """Named so that a check can prove they arrived; a secret belongs here, never in ``set``."""


class EngineSection(Section, frozen=True):
    """How SGLang is started."""

    python: str = ""
    """Interpreter that has SGLang; empty: ``sglang`` found on this box (see ``console doctor``)."""
    module: str = "sglang.launch_server"
    model: str = ""
    """Folder or hub repository of the target."""
    revision: str = ""
    served_name: str = ""
    tp: Count = 1
    host: str = "127.0.0.1"
    port: Port = 30000
    args: tuple[str, ...] = ()
    """More SGLang arguments, passed as they stand; they win over what the console chooses."""
    pythonpath: tuple[str, ...] = ()
    """Folders put in front of the engine's PYTHONPATH."""
    env: Environment = Environment()
    api_key_file: str = ""
    device_timer: bool = True
    """SGLANG_ENABLE_METRICS_DEVICE_TIMER: stage times; must be off on the CPU engine, which dies of it."""
    probe: bool = True
    """Load the console's probe into the engine."""
    stop_timeout_s: Positive = 60.0
    """Seconds between SIGTERM and SIGKILL of the engine's own process tree."""
    start_timeout_s: float = 0.0
    """0: a start is never given up on its own."""
    restart: Literal["never", "on-crash"] = "never"
    """Whether an engine that died by itself is launched again; never after a stop, or when the cause would repeat."""
    restart_limit: Count = 3
    """Launches by the policy within :attr:`restart_window_s`; then it is left dead."""
    restart_window_s: Positive = 3600.0
    simulated: bool = False


class Speculation(Section, frozen=True):
    """How the engine speculates. An empty algorithm means not at all."""

    algorithm: str = ""
    drafter: str = ""
    revision: str = ""
    steps: Depth | None = None
    topk: Count | None = None
    draft_tokens: Count | None = None
    """Verify width; with topk 1 it is always steps + 1."""
    candidate_steps: tuple[Depth, ...] = ()
    """Depths prebuilt for live changes (adaptive tiers); empty: depth is fixed until a restart."""
    attention_mode: str = ""
    drafters: tuple[str, ...] = ()
    """Other drafters of this target, offered for a swap."""


class BaselineSection(Section, frozen=True):
    """Decode speed per stream without speculation."""

    tok_s: Positive | None = None
    measured: str = ""
    """Date, ISO 8601."""
    fingerprint: str = ""
    concurrency: Count = 1
    note: str = ""


class TargetsSection(Section, frozen=True):
    """What the operators want."""

    baseline: BaselineSection = BaselineSection()
    goals_tok_s: tuple[Positive, ...] = ()


class Guard(Section, frozen=True):
    """When a change is taken back by itself."""

    window_s: Positive = 30.0
    min_accept_len: float | None = None
    min_share_of_before: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.8
    """Roll back when accept_len falls below this share of what it was before the change."""


class AlarmSection(Section, frozen=True):
    """What happens when an alarm rises or is over, besides showing it."""

    command: tuple[str, ...] = ()
    """Program and arguments, no shell; gets the alarm as JSON on its standard input."""
    timeout_s: Positive = 10.0
    """It is ended when it takes longer."""


class Profile(Section, frozen=True):
    """One tuning profile."""

    name: Name
    description: str = ""
    engine: EngineSection = EngineSection()
    speculation: Speculation = Speculation()
    targets: TargetsSection = TargetsSection()
    guard: Guard = Guard()
    alarm: AlarmSection = AlarmSection()
    measured: dict[str, object] = {}
    """Written by baseline and calibration runs; never edited by hand."""
