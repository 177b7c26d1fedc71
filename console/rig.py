"""The vocabulary: what is known of a rig at one moment, frozen, with units in the names.

The agent composes a :class:`Snapshot` twice a second; panels draw it; the command line prints it as JSON.
``None`` means "not known" everywhere and never zero. Times are Unix seconds (``_at_s``); ages are taken
against :attr:`Snapshot.at_s`, so nothing that draws needs a clock.
"""

from __future__ import annotations

import enum

import msgspec

SCHEMA = 1
"""Raised when a field changes its meaning; a console refuses an agent that speaks another one."""


class Source(enum.StrEnum):
    """Where a figure was read."""

    PROBE = "probe"
    METRICS = "metrics"
    LOADS = "loads"
    SERVER_INFO = "server_info"
    LOG = "log"
    NVML = "nvml"
    DERIVED = "derived"
    SIMULATED = "simulated"


class Part(msgspec.Struct, frozen=True, omit_defaults=True):
    """Base of every record below."""


class Figure(Part, frozen=True):
    """One number with where it comes from and when it was true.

    ``stale`` marks a value that was right at ``at_s`` and that nothing has confirmed since (a sticky gauge,
    a window without decodes). ``why`` says why there is no value, or why it is stale.
    """

    value: float | None = None
    source: Source | None = None
    at_s: float | None = None
    stale: bool = False
    why: str = ""


class Share(Part, frozen=True):
    """A fraction of ``tries`` with its 95 % Wilson interval; all ``None`` without tries."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    tries: int = 0


# ------------------------------------------------------------------------------------------------- engine


class EngineState(enum.StrEnum):
    """States of the engine as an operator names them."""

    NONE = "none"
    """Nothing was started and nothing is attached."""
    STARTING = "starting"
    READY = "ready"
    PAUSED = "paused"
    """Alive, generation paused by an operator or an operation."""
    BUSY = "busy"
    """Alive as a process, but its HTTP server does not answer at present."""
    STOPPING = "stopping"
    STOPPED = "stopped"
    """Ended because somebody asked."""
    DEAD = "dead"
    """Ended by itself; ``failure`` says why."""
    UNREACHABLE = "unreachable"
    """Attached by URL and not answering."""


class Phase(Part, frozen=True):
    """One phase of a start-up. ``seconds`` is ``None`` while it runs; ``expected_s`` comes from earlier starts."""

    name: str
    label: str
    started_at_s: float | None = None
    seconds: float | None = None
    expected_s: float | None = None
    progress: float | None = None
    """Fraction done inside the phase where the log tells (weight shards, graph batches)."""
    detail: str = ""


class Failure(Part, frozen=True):
    """One cause of a failure, all the ranks that reported it, and what to do about it."""

    kind: str
    message: str
    """The log's own words."""
    ranks: tuple[str, ...] = ()
    advice: str = ""


class Process(Part, frozen=True):
    """A process of the engine's tree."""

    pid: int
    role: str
    """launcher, scheduler, detokenizer or helper."""
    title: str = ""
    rank: int | None = None
    rss_bytes: int | None = None
    cpu_pct: float | None = None


class Engine(Part, frozen=True):
    """The SGLang server: what it is, in which state, since when."""

    state: EngineState = EngineState.NONE
    since_s: float | None = None
    note: str = ""
    """One line to the state: what it waits for, why it is as it is."""
    attached: bool = False
    """Started by somebody else; watched by URL only, cannot be stopped from here."""
    profile: str = ""
    url: str = ""
    pid: int | None = None
    version: str = ""
    model: str = ""
    drafter: str = ""
    algorithm: str = ""
    """Upper case as SGLang names it, empty without speculation."""
    tp: int | None = None
    topk: int | None = None
    depth_launch: int | None = None
    draft_tokens: int | None = None
    candidate_steps: tuple[int, ...] = ()
    """Depths with prebuilt state; empty when depth is fixed until a restart."""
    attention_backend: str = ""
    attention_mode: str = ""
    max_running: int | None = None
    started_at_s: float | None = None
    ready_at_s: float | None = None
    phases: tuple[Phase, ...] = ()
    progress: float | None = None
    """Of the whole start, 0..1, from this rig's own history; ``None`` without one."""
    eta_s: float | None = None
    eta_from: str = ""
    """What the estimate rests on, e.g. "3 earlier starts"."""
    exit_code: int | None = None
    failure: Failure | None = None
    log_path: str = ""
    command: str = ""
    """Masked command line."""
    processes: tuple[Process, ...] = ()


# --------------------------------------------------------------------------------------------------- GPUs


class GpuProcess(Part, frozen=True):
    """A process holding memory on a GPU; ``ours`` when it belongs to the engine's tree."""

    pid: int
    used_bytes: int | None = None
    name: str = ""
    ours: bool = False


class Gpu(Part, frozen=True):
    """One GPU. ``missing`` names each cell without a value and why ("not supported", "lost")."""

    index: int
    name: str = ""
    uuid: str = ""
    pci: str = ""
    rank: int | None = None
    """Tensor-parallel rank of the engine that runs here."""
    state: str = "ok"
    """ok, lost, error or mig."""
    note: str = ""
    util_pct: float | None = None
    mem_util_pct: float | None = None
    mem_used_bytes: int | None = None
    mem_total_bytes: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temp_c: float | None = None
    sm_clock_mhz: float | None = None
    sm_clock_max_mhz: float | None = None
    pcie_tx_bytes_s: float | None = None
    pcie_rx_bytes_s: float | None = None
    throttle: tuple[str, ...] = ()
    """Clock-limiting reasons in force, e.g. "power cap"; idle is not one."""
    ecc_uncorrected: int | None = None
    xid: int | None = None
    xid_at_s: float | None = None
    processes: tuple[GpuProcess, ...] = ()
    missing: dict[str, str] = {}
    at_s: float | None = None


# -------------------------------------------------------------------------------------------- speculation


class Stage(Part, frozen=True):
    """Time of one stage of a cycle over the last window. Milliseconds per round.

    ``source`` probe gives percentiles; metrics gives the mean only. ``why`` explains a missing stage.
    """

    mean_ms: float | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None
    max_ms: float | None = None
    rounds: int = 0
    source: Source | None = None
    at_s: float | None = None
    stale: bool = False
    why: str = ""


class RankStages(Part, frozen=True):
    """Stage means of one tensor-parallel rank."""

    rank: int
    draft_ms: float | None = None
    verify_ms: float | None = None
    extend_ms: float | None = None


class Cycle(Part, frozen=True):
    """One round of speculation: draft, verify, draft-extend, and the gap that nothing accounts for."""

    total_ms: Figure = Figure()
    draft: Stage = Stage()
    verify: Stage = Stage()
    extend: Stage = Stage()
    gap: Stage = Stage()
    batch: float | None = None
    """Mean requests per round in the window the total comes from."""
    graph_share: Figure = Figure()
    """Fraction of verify passes that replayed a CUDA graph."""
    ranks: tuple[RankStages, ...] = ()
    slowest_rank: int | None = None
    slowest_why: str = ""


class Position(Part, frozen=True):
    """Acceptance at draft position ``index`` (1-based)."""

    index: int
    conditional: Share = Share()
    """Accepted here given that all before were: "per-step accuracy"."""
    marginal: Share = Share()
    """Accepted up to here over all rounds; accept_len = 1 + sum of these."""


class Acceptance(Part, frozen=True):
    """accept_len (bonus token included) and acceptance by position."""

    accept_len: Figure = Figure()
    accept_rate: Figure = Figure()
    depth: Figure = Figure()
    depth_pinned: bool | None = None
    """True: held by the console; False: SGLang's adaptive policy decides; None: fixed or unknown."""
    rejected_share: Figure = Figure()
    """Fraction of drafted tokens that verification threw away."""
    positions: tuple[Position, ...] = ()
    positions_source: Source | None = None
    positions_why: str = ""


class Load(Part, frozen=True):
    """What the engine is asked to do."""

    running: Figure = Figure()
    queued: Figure = Figure()
    tok_s: Figure = Figure()
    """Decode throughput over all requests."""
    tok_s_stream: Figure = Figure()
    """Per request: accept_len / cycle."""
    token_usage: Figure = Figure()
    """Fraction of the KV pool in use."""


# ---------------------------------------------------------------------------------------------- economics


class Baseline(Part, frozen=True):
    """Decode speed per stream without speculation, with its date and fingerprint."""

    tok_s: float | None = None
    at_s: float | None = None
    fingerprint: str = ""
    concurrency: int = 1
    stale: bool = False
    """The rig differs from the one it was measured on."""
    note: str = ""


class Goal(Part, frozen=True):
    """What one speed asks of the drafter. Accuracies are fractions, constant over positions."""

    tok_s: float
    accept_len: float | None
    accuracy_unlimited: float | None
    accuracy_at_depth: float | None
    """``None`` when no accuracy reaches it at this depth."""
    reachable: bool
    min_depth: int | None
    label: str = ""
    verify_ms_needed: float | None = None
    """The verify time at which today's accept_len would reach it, other stages unchanged."""


class Verdict(enum.StrEnum):
    """Does speculation pay at this moment?"""

    PAYS = "pays"
    LOSES = "loses"
    UNCLEAR = "cannot tell yet"


class Targets(Part, frozen=True):
    """Break-even and goals at the depth in use and at unlimited depth."""

    baseline: Baseline = Baseline()
    cycle_ms: float | None = None
    depth: int | None = None
    break_even_accept_len: float | None = None
    ceiling_tok_s: float | None = None
    """(depth + 1) / cycle: what a perfect drafter would reach."""
    accept_len: float | None = None
    speed_tok_s: float | None = None
    speedup: float | None = None
    """speed / baseline."""
    margin: float | None = None
    """accept_len - break_even_accept_len."""
    verdict: Verdict = Verdict.UNCLEAR
    why: str = ""
    goals: tuple[Goal, ...] = ()
    """The first goal is break-even itself."""


# -------------------------------------------------------------------------------- operations, events, alarms


class StepState(enum.StrEnum):
    """State of one step of an operation."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


class Step(Part, frozen=True):
    """One step of an operation."""

    name: str
    state: StepState = StepState.WAITING
    detail: str = ""
    seconds: float | None = None


class OperationState(enum.StrEnum):
    """State of an operation."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    ROLLED_BACK = "rolled back"
    CANCELLED = "cancelled"


class Operation(Part, frozen=True):
    """A change to the rig: who asked, what it does, how far it is, how it ended."""

    id: str
    kind: str
    """launch, stop, restart, depth, swap, ..."""
    title: str = ""
    by: str = ""
    path: str = ""
    """live or restart."""
    state: OperationState = OperationState.RUNNING
    started_at_s: float = 0.0
    ended_at_s: float | None = None
    expected_s: float | None = None
    steps: tuple[Step, ...] = ()
    message: str = ""
    before: str = ""
    after: str = ""
    cancellable: bool = False
    """False past the point of no return."""


class Change(Part, frozen=True):
    """One line of a preview."""

    what: str
    before: str
    after: str


class Preview(Part, frozen=True):
    """What an operation would do, before anybody agrees to it."""

    kind: str
    title: str
    path: str = ""
    """live or restart."""
    path_why: str = ""
    changes: tuple[Change, ...] = ()
    expected_s: float | None = None
    expected_from: str = ""
    warnings: tuple[str, ...] = ()
    refused: str = ""
    """Why it cannot be done at all; empty when it can."""


class Event(Part, frozen=True):
    """Something that happened, newest last in :attr:`Snapshot.events`."""

    at_s: float
    level: str
    """info, warn or error."""
    text: str
    kind: str = ""


class Alarm(Part, frozen=True):
    """A condition that holds now."""

    id: str
    level: str
    since_s: float
    text: str
    causes: tuple[str, ...] = ()
    """Likely causes, the likeliest first."""
    acknowledged_by: str = ""


class History(Part, frozen=True):
    """The last minutes at one point a second, oldest first, ``None`` where nothing was measured."""

    step_s: float = 1.0
    cycle_ms: tuple[float | None, ...] = ()
    draft_ms: tuple[float | None, ...] = ()
    verify_ms: tuple[float | None, ...] = ()
    accept_len: tuple[float | None, ...] = ()
    tok_s: tuple[float | None, ...] = ()


class ProbeStatus(Part, frozen=True):
    """What the probe inside the engine can do."""

    present: bool = False
    why: str = "no probe in this engine"
    ranks: int = 0
    version: str = ""
    depth_live: bool = False
    depth_why: str = ""
    swap_live: bool = False
    swap_why: str = ""
    hooks: dict[str, str] = {}
    """Hook name -> "on" or why it is off."""


class AgentInfo(Part, frozen=True):
    """The daemon that composed the snapshot."""

    pid: int = 0
    version: str = ""
    started_at_s: float = 0.0
    host: str = ""
    read_only: bool = False
    journal_note: str = ""
    """Why nothing is being recorded; empty while recording works."""


class Snapshot(Part, frozen=True):
    """Everything known of a rig at :attr:`at_s`."""

    schema: int = SCHEMA
    seq: int = 0
    at_s: float = 0.0
    rig: str = ""
    simulated: bool = False
    agent: AgentInfo = AgentInfo()
    engine: Engine = Engine()
    gpus: tuple[Gpu, ...] = ()
    gpu_note: str = ""
    """Why there are no GPUs, or what is wrong with NVML."""
    driver: str = ""
    cycle: Cycle = Cycle()
    acceptance: Acceptance = Acceptance()
    load: Load = Load()
    targets: Targets = Targets()
    history: History = History()
    probe: ProbeStatus = ProbeStatus()
    operation: Operation | None = None
    """The running one, else the last one."""
    alarms: tuple[Alarm, ...] = ()
    events: tuple[Event, ...] = ()
    log_tail: tuple[str, ...] = ()
    """The engine log's last lines, control characters removed, secrets masked."""


def age_s(at_s: float | None, snapshot: Snapshot) -> float | None:
    """Seconds between a measurement and the snapshot it stands in; never negative."""
    return None if at_s is None else max(0.0, snapshot.at_s - at_s)
