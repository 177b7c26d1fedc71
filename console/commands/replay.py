"""``console replay FILE``: the deck on a recorded journal."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from console.agent.recording import Recording


@click.command("replay")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--speed", type=click.FloatRange(0.01, 3600.0), help="Recorded seconds a second. [default: 1]")
@click.option(
    "--json", "as_json", is_flag=True, help="The snapshots as NDJSON, without the deck; with --speed in time."
)
def command(file: Path, speed: float | None, as_json: bool) -> None:
    """Open the deck on FILE: the history.sqlite of a rig, or a copy of it. Nothing can be changed from there.

    Space pauses, left and right go 10 s, with shift a minute, `,` and `.` step, `<` and `>` change the speed. Times in which
    nothing was recorded are passed over. With --json every snapshot is printed, one a line, as fast as they can be read.
    """
    if as_json:
        from console.agent.recording import Recording

        with Recording(file) as recording:
            _print(recording, speed)
        return
    from console.screens import terminal

    terminal.check(instead=f"`console replay {file} --json` prints the snapshots")
    _open(file, speed or 1.0)


def _print(recording: Recording, speed: float | None) -> None:
    """Every snapshot as a line of JSON."""
    import msgspec

    encoder = msgspec.json.Encoder()
    out = sys.stdout.buffer
    at_s: float | None = recording.first_s
    while at_s is not None:
        snapshot = recording.at(at_s)
        if snapshot is not None:
            out.write(encoder.encode(snapshot) + b"\n")
        following = recording.after(at_s)
        if speed is not None:
            out.flush()
            time.sleep(0.0 if following is None else min((following - at_s) / speed, 5.0))
        at_s = following
    out.flush()
    if recording.damaged:
        click.echo(f"{recording.damaged} blocks of {recording.path} are damaged and were passed over", err=True)


def _open(file: Path, speed: float) -> None:
    from console.agent.recording import Recording
    from console.agent.replay import Player, ReplayClient
    from console.screens import hangup, plain
    from console.screens.replay import ReplayApp

    with Recording(file) as recording:  # what is no journal is told before a screen is opened
        first = recording.at(recording.first_s)
    client = ReplayClient(file, Player(speed))
    app = ReplayApp(
        lambda: client, player=client.player, rig=first.rig if first is not None else None, ascii_only=plain.here()
    )
    hangup.end_with_the_terminal()
    app.run()
    if app.failure is not None:
        raise app.failure
    sys.exit(app.return_code or 0)
