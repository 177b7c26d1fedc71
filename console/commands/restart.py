"""``console restart``: the same profile once more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from console.errors import ExitCode

if TYPE_CHECKING:
    from console.cli import RigContext


@click.command("restart")
@click.option("--json", "as_json", is_flag=True, help="Nothing but the operation as JSON on stdout.")
@click.pass_obj
def command(obj: RigContext, /, as_json: bool) -> None:
    """Stop the engine when one runs, and launch it again with the same profile, depth and drafter."""
    from console.commands import _rig

    _rig.change(_rig.connect(obj), "restart", {}, yes=True, as_json=as_json, refused_code=ExitCode.FAILED)
