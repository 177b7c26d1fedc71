"""``console baseline``: what the rig does without speculation, measured now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from console.errors import ExitCode

if TYPE_CHECKING:
    from console.cli import RigContext


@click.command("baseline")
@click.option("--concurrency", default=1, show_default=True, help="Requests at once.")
@click.option("--repetitions", default=3, show_default=True, help="Times the measurement is repeated.")
@click.option("--tokens", default=256, show_default=True, help="Answer length of each request.")
@click.option("--temperature", default=0.0, show_default=True, help="0 is greedy.")
@click.option("--prompts", default="shipped", show_default=True, help="JSONL file of prompts or token ids.")
@click.option("--busy", default=0, show_default=True, help="Go on although so many requests of others run.")
@click.option("--no-save", is_flag=True, help="Leave the profile as it is; the run is kept in the ledger.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Nothing but the operation as JSON on stdout.")
@click.pass_obj
def command(
    obj: RigContext, /, concurrency: int, no_save: bool, yes: bool, as_json: bool, **options: float | str
) -> None:
    """Measure tokens a second of one stream without speculation, and put it into the profile with date and fingerprint.

    Live through depth 0 where the engine has it prebuilt; by two restarts otherwise, which the preview says.
    """
    from console.commands import _rig

    args = {**options, "concurrency": [concurrency], "save": not no_save}
    _rig.change(_rig.connect(obj), "baseline", args, yes=yes, as_json=as_json, refused_code=ExitCode.FAILED)
