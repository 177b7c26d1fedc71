"""``console swap DRAFTER``: exchange the drafter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from console.errors import ExitCode

if TYPE_CHECKING:
    from console.cli import RigContext


@click.command("swap")
@click.argument("drafter")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Nothing but the operation as JSON on stdout.")
@click.pass_obj
def command(obj: RigContext, /, drafter: str, yes: bool, as_json: bool) -> None:
    """Put DRAFTER, a folder or a hub repository, in place of the running one.

    The verdict comes first: a drafter that does not fit is refused (exit code 4) and nothing is touched. Otherwise by drain
    and restart, back to the drafter before when the engine does not come up.
    """
    from console.commands import _rig

    _rig.change(
        _rig.connect(obj), "swap", {"drafter": absolute(drafter)}, yes=yes, as_json=as_json, refused_code=ExitCode.NO
    )


def absolute(drafter: str) -> str:
    """A folder as the agent, which lives elsewhere, finds it; a repository of the hub as it is."""
    is_path = drafter.startswith((".", "/", "~")) or Path(drafter).is_dir()
    return str(Path(drafter).expanduser().resolve()) if is_path else drafter
