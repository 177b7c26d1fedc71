"""``make demo-real``: the real engine under load with the deck on it; leaving the deck stops both."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.real.load import Load
from tests.real.rig import Places, RealRig

CLIENTS = 2


def main() -> int:
    """Start, load, show, stop."""
    places = Places()
    if places.missing:
        print(f"demo-real: {places.missing}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="console-demo-") as home:
        rig = RealRig(Path(home), places)
        try:
            print("demo-real: starting SGLang on the CPU, about half a minute", file=sys.stderr)
            rig.start()
            with Load(rig.url, places.checkpoints, clients=CLIENTS):
                deck = [sys.executable, "-m", "console", "--rig", "real"]
                return subprocess.run(deck, env=rig.env, check=False).returncode
        finally:
            rig.end()


if __name__ == "__main__":
    sys.exit(main())
