"""``console depth N``: how many tokens the drafter proposes a round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from console.errors import ConsoleError, ExitCode

if TYPE_CHECKING:
    from console.cli import RigContext


@click.command("depth")
@click.argument("depth", metavar="N|auto")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Nothing but the operation as JSON on stdout.")
@click.pass_obj
def command(obj: RigContext, /, depth: str, yes: bool, as_json: bool) -> None:
    """Set the speculation depth to N; 0 is speculation off, auto gives it back to SGLang's own policy.

    Live when the engine has that depth prebuilt and the probe is there; by drain and restart otherwise, with the way back
    when the engine does not come up. The preview says which.
    """
    from console.commands import _rig

    _rig.change(
        _rig.connect(obj), "depth", {"depth": parse(depth)}, yes=yes, as_json=as_json, refused_code=ExitCode.FAILED
    )


def parse(text: str) -> int | None:
    """A depth; ``None`` for auto.

    Raises:
        ConsoleError: it is neither.
    """
    if text == "auto":
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 4):
        raise ConsoleError(f"{text!r} is no depth", todo="give a whole number from 0 on, or auto", code=ExitCode.USAGE)
    return int(text)
