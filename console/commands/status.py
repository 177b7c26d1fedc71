"""``console status``: the rig at a glance, or the whole snapshot as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from console import rig
from console.engine.logtext import sanitize
from console.errors import ExitCode
from console.rig import EngineState

if TYPE_CHECKING:
    from console.cli import RigContext

GIB = 2**30


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="The whole snapshot as JSON.")
@click.pass_obj
def command(obj: RigContext, /, as_json: bool) -> None:
    """Say what the rig does now. Exit code 3: nothing runs; 4: the engine is dead, or does not answer."""
    from console.commands import _rig

    client = _rig.connect(obj)
    snapshot = client.snapshot()
    if as_json:
        import msgspec

        document = {"simulated": snapshot.simulated, **msgspec.to_builtins(snapshot)}
        click.echo(msgspec.json.encode(document).decode())
    else:
        print_status(snapshot)
    sys.exit(exit_code(snapshot))


def exit_code(snapshot: rig.Snapshot) -> ExitCode:
    """The answer as an exit code."""
    state = snapshot.engine.state
    if state in {EngineState.NONE, EngineState.STOPPED}:
        return ExitCode.UNREACHABLE
    return ExitCode.NO if state in {EngineState.DEAD, EngineState.UNREACHABLE} else ExitCode.OK


def print_status(snapshot: rig.Snapshot) -> None:
    """The rig in a dozen lines of plain text."""
    for line in lines(snapshot):
        click.echo(sanitize(line))


def lines(snapshot: rig.Snapshot) -> Iterable[str]:
    """What an operator asks first, in that order."""
    if snapshot.simulated:
        yield "SIMULATED  no GPU, no SGLang: every figure is made up"
    yield from _engine(snapshot)
    if snapshot.engine.state in {EngineState.READY, EngineState.PAUSED, EngineState.BUSY, EngineState.UNREACHABLE}:
        yield from _speculation(snapshot)
    yield from _gpus(snapshot)
    for alarm in snapshot.alarms:
        yield _row("ALARM", alarm.text + (f" - {alarm.causes[0]}" if alarm.causes else ""))
    if snapshot.operation is not None:
        yield _row("doing" if snapshot.operation.state is rig.OperationState.RUNNING else "last", _operation(snapshot))
    if snapshot.agent.journal_note:
        yield _row("history", snapshot.agent.journal_note)


def _row(name: str, text: str) -> str:
    return f"{name:<10} {text}"


def _engine(snapshot: rig.Snapshot) -> Iterable[str]:
    engine = snapshot.engine
    since = "" if engine.since_s is None else f" for {_span(snapshot.at_s - engine.since_s)}"
    parts = [f"{engine.state.value.upper()}{since}", f"rig {snapshot.rig}"]
    parts += [f"pid {engine.pid}"] if engine.pid else []
    parts += [engine.url] if engine.url else []
    parts += ["started by somebody else: watched only"] if engine.attached else []
    yield _row("engine", "   ".join(parts))
    if engine.note:
        yield _row("", engine.note)
    if engine.failure is not None:
        ranks = f" ({', '.join(engine.failure.ranks)})" if engine.failure.ranks else ""
        yield _row("why", engine.failure.message + ranks)
        if engine.failure.advice:
            yield _row("to do", engine.failure.advice)
    if engine.state is EngineState.STARTING:
        running = next((phase for phase in reversed(engine.phases) if phase.seconds is None), None)
        left = f", about {_span(engine.eta_s)} left ({engine.eta_from})" if engine.eta_s is not None else ""
        yield _row("phase", f"{running.label if running else 'launching'}{left}")
    if engine.model:
        version = f"   SGLang {engine.version}" if engine.version else ""
        profile = f"   profile {engine.profile}" if engine.profile else ""
        yield _row("model", f"{engine.model}   tp {_whole(engine.tp)}{version}{profile}")


def _speculation(snapshot: rig.Snapshot) -> Iterable[str]:
    engine, cycle, acceptance, load = snapshot.engine, snapshot.cycle, snapshot.acceptance, snapshot.load
    if engine.algorithm:
        pinned = " (pinned)" if acceptance.depth_pinned else ""
        yield _row(
            "drafter",
            f"{engine.drafter or '-'}   {engine.algorithm}   depth {_figure(acceptance.depth, '.0f')}{pinned}",
        )
    else:
        yield _row("drafter", "no speculation")
    tok_s = f"{_figure(load.tok_s, '.1f')} tok/s, {_figure(load.tok_s_stream, '.1f')} a stream"
    yield _row("load", f"running {_figure(load.running, '.0f')}   queued {_figure(load.queued, '.0f')}   {tok_s}")
    stages = (("draft", cycle.draft), ("verify", cycle.verify), ("extend", cycle.extend), ("gap", cycle.gap))
    told = " + ".join(f"{name} {stage.mean_ms:.1f}" for name, stage in stages if stage.mean_ms is not None)
    yield _row("cycle", f"{_figure(cycle.total_ms, '.1f')} ms" + (f" = {told}" if told else ""))
    yield _row("pays?", _verdict(snapshot))


def _verdict(snapshot: rig.Snapshot) -> str:
    targets = snapshot.targets
    accept_len = _figure(snapshot.acceptance.accept_len, ".2f")
    said = f"{targets.verdict.value}: accept_len {accept_len}"
    if targets.break_even_accept_len is not None:
        said += f" against break-even {targets.break_even_accept_len:.2f}"
    if targets.speedup is not None and targets.baseline.tok_s is not None:
        said += f", {targets.speedup:.2f}x of {targets.baseline.tok_s:g} tok/s"
    unclear = targets.verdict is rig.Verdict.UNCLEAR and targets.why
    return f"{said} - {targets.why}" if unclear else said


def _gpus(snapshot: rig.Snapshot) -> Iterable[str]:
    gpus = snapshot.gpus
    if not gpus:
        yield _row("GPUs", f"- ({snapshot.gpu_note})" if snapshot.gpu_note else "-")
        return
    bad = [f"{gpu.index} {gpu.state.upper()} {gpu.note}".strip() for gpu in gpus if gpu.state not in {"ok", "mig"}]
    slow = [f"{gpu.index} limited by {', '.join(gpu.throttle)}" for gpu in gpus if gpu.throttle]
    used = [gpu.mem_used_bytes for gpu in gpus if gpu.mem_used_bytes is not None]
    total = [gpu.mem_total_bytes for gpu in gpus if gpu.mem_total_bytes is not None]
    parts = [f"{len(gpus) - len(bad)} of {len(gpus)} ok"]
    parts.append(f"util {_range([gpu.util_pct for gpu in gpus])} %")
    parts.append(f"power {_range([gpu.power_w for gpu in gpus])} W")
    parts.append(f"temp {_range([gpu.temp_c for gpu in gpus])} C")
    if used and total:
        parts.append(f"memory {sum(used) / GIB:.0f} of {sum(total) / GIB:.0f} GiB")
    yield _row("GPUs", "   ".join(parts))
    for line in (*bad, *slow):
        yield _row("", f"GPU {line}")
    if snapshot.gpu_note:
        yield _row("", snapshot.gpu_note)


def _range(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    low, high = f"{min(known):.0f}", f"{max(known):.0f}"
    return low if low == high else f"{low}-{high}"


def _operation(snapshot: rig.Snapshot) -> str:
    operation = snapshot.operation
    if operation is None:
        return "-"
    if operation.state is not rig.OperationState.RUNNING:
        return f"{operation.title}: {operation.state.value}, {operation.message} (by {operation.by})"
    step = next((step for step in operation.steps if step.state is rig.StepState.RUNNING), None)
    elapsed = _span(snapshot.at_s - operation.started_at_s)
    expected = f" of about {_span(operation.expected_s)}" if operation.expected_s is not None else ""
    return f"{operation.title}: {step.name if step else 'beginning'} ({elapsed}{expected}, by {operation.by})"


def _figure(figure: rig.Figure, style: str) -> str:
    if figure.value is None:
        return "-"
    return f"{figure.value:{style}}" + (" (stale)" if figure.stale else "")


def _whole(value: int | None) -> str:
    return "-" if value is None else str(value)


def _span(seconds: float) -> str:
    from console.agent.ports import span

    return span(max(0.0, seconds))
