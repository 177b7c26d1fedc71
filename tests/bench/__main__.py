"""``python -m tests.bench [startup|steady|log|codec|hostile ...]``: all of them without a name; under ten minutes."""

from __future__ import annotations

import platform
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.bench import codec, hostile, log_reader, startup, steady
from tests.bench.rig import Rig
from tests.fake_nvml import build

NAMES = ("startup", "steady", "log", "codec", "hostile")


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all."""
    unknown = set(names) - set(NAMES)
    if unknown:
        print(f"bench: no benchmark {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    wanted = names or list(NAMES)
    begin = time.monotonic()
    print(f"Python {platform.python_version()}, {platform.machine()}, {platform.platform(terse=True)}")
    with tempfile.TemporaryDirectory(prefix="console-bench-") as folder:
        library = build(Path(folder)) if shutil.which("gcc") else None
        if library is None:
            print("no gcc: no fake NVML, so nothing of nvitop's stands beside the console", file=sys.stderr)
        snapshots: dict[str, bytes] = {}
        if {"startup", "steady", "codec"} & set(wanted):
            for gpus in (8, 64):
                with Rig(Path(folder) / f"home-{gpus}", gpus) as rig:
                    if "startup" in wanted and gpus == 8:
                        startup.run(rig, library)
                    name = f"a serving rig of {gpus} GPUs"
                    snapshots[name] = steady.run(rig, library) if "steady" in wanted else _snapshot(rig)
        if "log" in wanted:
            log_reader.run()
        if "codec" in wanted:
            codec.run(snapshots)
        if "hostile" in wanted:
            hostile.run()
    print(f"\n{time.monotonic() - begin:.0f} s in all", file=sys.stderr)
    return 0


def _snapshot(rig: Rig) -> bytes:
    time.sleep(5)
    return rig.client.snapshot_json()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
