"""Draw the pictures of the deck in docs/pictures/ from a simulated rig: ``python docs/make_pictures.py``.

With no rig given the figures are the built ones of the tests, labelled SIMULATED as everything that is not measured.

    python docs/make_pictures.py                   built figures
    python docs/make_pictures.py snapshot.json     the answer of an agent's ``/v1/snapshot``
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from console.rig import Snapshot  # noqa: E402 - the script runs from a checkout
from console.themes import DEFAULT  # noqa: E402
from tests.panels import builders  # noqa: E402
from tests.panels.deck_app import DeckApp  # noqa: E402

PICTURES = Path(__file__).resolve().parent / "pictures"


def scenes(snapshot: Snapshot | None) -> dict[str, tuple[Snapshot, tuple[int, int], str]]:
    """File name -> what to draw, at which size, in which theme."""
    label = {"simulated": True, "rig": "demo"}
    if snapshot is not None:
        return {
            f"rig-{width}x{height}": (snapshot, (width, height), DEFAULT)
            for width, height in ((80, 24), (120, 36), (200, 50))
        }
    pays, loses, starting, dead = (
        msgspec.structs.replace(build(), **label)
        for build in (builders.pays, builders.loses, builders.starting, builders.dead)
    )
    return {
        "deck-80x24": (loses, (80, 24), DEFAULT),
        "deck-120x36": (loses, (120, 36), DEFAULT),
        "deck-200x50": (pays, (200, 50), DEFAULT),
        "deck-light-120x36": (pays, (120, 36), "console-light"),
        "deck-colour-blind-120x36": (loses, (120, 36), "console-colour-blind"),
        "starting-120x36": (starting, (120, 36), DEFAULT),
        "dead-120x36": (dead, (120, 36), DEFAULT),
    }


async def picture(snapshot: Snapshot, size: tuple[int, int], theme: str) -> str:
    """One deck as SVG, the same for the same figures: Textual numbers its classes at random."""
    app = DeckApp(snapshot, theme)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        return re.sub(r"terminal-\d+", "terminal", app.export_screenshot(title="SGLang speculation console"))


def main(arguments: list[str]) -> int:
    """Write the pictures; the number of the exit."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    snapshot = None
    if arguments:
        try:
            snapshot = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=Snapshot)
        except (OSError, msgspec.MsgspecError) as error:
            print(f"{arguments[0]}: not a snapshot: {error}", file=sys.stderr)
            return 2
    PICTURES.mkdir(exist_ok=True)
    for name, (shown, size, theme) in scenes(snapshot).items():
        path = PICTURES / f"{name}.svg"
        path.write_text(asyncio.run(picture(shown, size, theme)), encoding="utf-8")
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
