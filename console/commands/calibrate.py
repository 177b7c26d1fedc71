"""``console calibrate``: the cost table of this rig, and the best depth for each concurrency."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from console.errors import ConsoleError, ExitCode

if TYPE_CHECKING:
    from console.cli import RigContext


@click.command("calibrate")
@click.option("--depths", default="", metavar="N,N,...", help="Depths to measure. [default: every prebuilt one]")
@click.option("--concurrency", default="1", show_default=True, metavar="N,N,...", help="Requests at once.")
@click.option("--repetitions", default=3, show_default=True, help="Times each cell is visited.")
@click.option("--tokens", default=256, show_default=True, help="Answer length of each request.")
@click.option("--temperature", default=0.0, show_default=True, help="0 is greedy.")
@click.option("--prompts", default="shipped", show_default=True, help="JSONL file of prompts or token ids.")
@click.option("--busy", default=0, show_default=True, help="Go on although so many requests of others run.")
@click.option("--no-save", is_flag=True, help="Leave the profile as it is; the run is kept in the ledger.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Nothing but the operation as JSON on stdout.")
@click.pass_obj
def command(
    obj: RigContext,
    /,
    depths: str,
    concurrency: str,
    no_save: bool,
    yes: bool,
    as_json: bool,
    **options: float | str,
) -> None:
    """Measure tok/s, cycle and acceptance for each depth and concurrency on the running engine.

    Cells are visited in turn, back and forth; the depth is put back whatever happens. Needs an engine whose depth can be
    changed live.
    """
    from console.commands import _rig

    args = {**options, "depths": _numbers(depths), "concurrency": _numbers(concurrency), "save": not no_save}
    _rig.change(_rig.connect(obj), "calibrate", args, yes=yes, as_json=as_json, refused_code=ExitCode.FAILED)


def _numbers(text: str) -> list[int]:
    """Whole numbers separated by commas.

    Raises:
        ConsoleError: one is none.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    bad = next((word for word in words if not (word.isascii() and word.isdigit() and len(word) < 6)), None)
    if bad is not None:
        raise ConsoleError(f"{bad!r} is no whole number", todo="write them as 1,4,16", code=ExitCode.USAGE)
    return [int(word) for word in words]
