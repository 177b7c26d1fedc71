"""The engine as the snapshot shows it: pure, from what the supervisor keeps."""

from __future__ import annotations

from collections.abc import Iterable

from console import rig
from console.agent import eta
from console.agent.record import Start
from console.agent.state import Ending, EngineRecord
from console.engine.log import LogState


def first_token_phase(asked_at_s: float | None, ready_at_s: float | None) -> rig.Phase | None:
    """The phase between the log's "ready" and the first generated token; ``None`` before it."""
    if asked_at_s is None:
        return None
    seconds = None if ready_at_s is None else max(0.0, ready_at_s - asked_at_s)
    return rig.Phase(eta.LAST_PHASE, "First token", asked_at_s, seconds)


def view(
    record: EngineRecord,
    log: LogState,
    *,
    state: rig.EngineState,
    since_s: float,
    note: str,
    now_s: float,
    ended: Ending | None = None,
    first_token_at_s: float | None = None,
    earlier: Iterable[Start] = (),
) -> rig.Engine:
    """One launched engine."""
    profile = record.configuration.effective()
    spec = profile.speculation
    phases = eta.with_launch(
        log.phases,
        record.started_at_s,
        first_token=first_token_phase(first_token_at_s, record.ready_at_s),
    )
    progress = eta.Progress(phases)
    if state is rig.EngineState.STARTING:
        progress = eta.estimate(phases, earlier, now_s=now_s, launched_at_s=record.started_at_s)
    alive = ended is None
    return rig.Engine(
        state=state,
        since_s=since_s,
        note=note,
        profile=profile.name,
        url=record.url,
        pid=record.identity.pid if record.identity is not None and alive else None,
        version=record.version,
        model=profile.engine.model,
        drafter=spec.drafter if spec.algorithm else "",
        algorithm=spec.algorithm.upper(),
        tp=profile.engine.tp,
        topk=spec.topk if spec.algorithm else None,
        depth_launch=record.depth if record.depth is not None else (None if spec.algorithm else 0),
        draft_tokens=record.draft_tokens,
        candidate_steps=record.candidate_steps,
        attention_mode=spec.attention_mode,
        started_at_s=record.started_at_s,
        ready_at_s=record.ready_at_s,
        phases=progress.phases,
        progress=progress.progress,
        eta_s=progress.eta_s,
        eta_from=progress.eta_from,
        exit_code=ended.exit_code if ended is not None else None,
        failure=ended.failure if ended is not None else None,
        log_path=record.log_path,
        command=record.command,
    )
