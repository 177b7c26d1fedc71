"""The engine as the snapshot shows it: pure, from what the supervisor keeps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from console import rig
from console.agent import eta, ports
from console.agent.record import Start
from console.agent.state import Ending, EngineRecord
from console.engine.log import LogState

SILENT_S = 4.0
"""An HTTP server that has not answered for so long is called busy; only a dead process makes a dead engine."""


class Reach(NamedTuple):
    """What the HTTP server of a living engine does."""

    error: str
    """Why it does not answer; empty while it does."""
    silent_s: float
    never_answered: bool
    foreign: bool
    """Somebody else's server: whether its process lives cannot be seen."""
    paused: bool


def reached(reach: Reach, note: str = "") -> tuple[rig.EngineState, str]:
    """State and note by what the HTTP server does."""
    if reach.error and (reach.silent_s > SILENT_S or (reach.foreign and reach.never_answered)):
        unreachable = reach.foreign and "cannot be reached" in reach.error
        state = rig.EngineState.UNREACHABLE if unreachable else rig.EngineState.BUSY
        return state, f"no answer for {ports.span(reach.silent_s)}: {reach.error}"
    if reach.paused:
        why = "the server says it is up and not ready: generation is paused, or it shuts down"
        return rig.EngineState.PAUSED, why
    return rig.EngineState.READY, note


def phases(record: EngineRecord, log: LogState) -> tuple[rig.Phase, ...]:
    """The start's phases from the launch to the first generated token."""
    asked_at_s = record.first_token_asked_at_s
    first = None
    if asked_at_s is not None:
        seconds = None if record.ready_at_s is None else max(0.0, record.ready_at_s - asked_at_s)
        first = rig.Phase(eta.LAST_PHASE, "First token", asked_at_s, seconds)
    return eta.with_launch(log.phases, record.started_at_s, first_token=first)


def view(
    record: EngineRecord,
    log: LogState,
    *,
    state: rig.EngineState,
    since_s: float,
    note: str,
    now_s: float,
    ended: Ending | None = None,
    earlier: Iterable[Start] = (),
) -> rig.Engine:
    """One launched engine."""
    profile = record.configuration.effective()
    spec = profile.speculation
    found = phases(record, log)
    progress = eta.Progress(found)
    if state is rig.EngineState.STARTING:
        progress = eta.estimate(found, earlier, now_s=now_s, launched_at_s=record.started_at_s)
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
