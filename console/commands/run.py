"""``console run PROFILE``: launch the engine and wait for its first token."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from console import rig
from console.errors import ExitCode

if TYPE_CHECKING:
    from console.cli import RigContext


@click.command("run")
@click.argument("profile")
@click.option("--no-wait", is_flag=True, help="Return as soon as the launcher runs.")
@click.option("--json", "as_json", is_flag=True, help="Nothing but the operation as JSON on stdout.")
@click.pass_obj
def command(obj: RigContext, /, profile: str, no_wait: bool, as_json: bool) -> None:
    """Launch the engine from PROFILE (a name of `console profiles list`, or a .toml file), detached from this terminal.

    Waits until the first token has been generated, with the phases of the start on stderr. Ctrl-C ends the waiting only.
    """
    from console.agent.client import choose
    from console.agent.spawn import ensure_agent
    from console.commands import _rig
    from profiles import store

    loaded = store.load(profile)
    name = str(Path(profile).resolve()) if profile.endswith(".toml") else profile
    client = ensure_agent(choose(obj.rig), simulated=loaded.engine.simulated)
    if loaded.engine.simulated:
        _rig.narrate("SIMULATED: no GPU, no SGLang; every figure is made up")
    preview = client.preview("launch", {"profile": name})
    if not preview.refused:
        _rig.show(preview)
    operation = client.operate("launch", {"profile": name})
    if no_wait:
        if as_json:
            _rig.print_operation(operation, simulated=loaded.engine.simulated)
        else:
            click.echo(f"{operation.title}: begun; `console status` follows it")
        return
    try:
        done = _rig.follow(client, operation, Phases())
    except KeyboardInterrupt:
        _rig.narrate("\nthe engine goes on starting: `console status` follows it, `console stop` takes it back")
        sys.exit(ExitCode.FAILED)
    if as_json:
        _rig.print_operation(done, simulated=loaded.engine.simulated)
    else:
        engine = client.snapshot().engine
        where = f" at {engine.url}" if done.state is rig.OperationState.DONE else ""
        click.echo(f"{done.state.value}: {done.message}{where}")
    sys.exit(ExitCode.OK if done.state is rig.OperationState.DONE else ExitCode.FAILED)


class Phases:
    """Tells each phase of a start once it begins, and how it goes on where that is known."""

    def __init__(self) -> None:
        self._told = ""

    def __call__(self, snapshot: rig.Snapshot) -> None:
        """Tell what is new."""
        from console.commands import _rig

        engine = snapshot.engine
        running = next((phase for phase in reversed(engine.phases) if phase.seconds is None), None)
        if engine.state is not rig.EngineState.STARTING or running is None:
            return
        tenth = "" if running.progress is None else f"{int(running.progress * 10) * 10} %"
        line = f"{running.label} {tenth}".strip()
        if line == self._told:
            return
        self._told = line
        elapsed = snapshot.at_s - (engine.started_at_s or snapshot.at_s)
        left = "" if engine.eta_s is None else f", about {_rig.duration(engine.eta_s)} left"
        _rig.narrate(f"  {elapsed:5.0f} s  {line}{left}")
