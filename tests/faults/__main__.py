"""``python -m tests.faults``: each part of the simulated rig is hurt, hundreds of times; a table tells what came of it."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from console.paths import HOME_VARIABLE
from tests.faults.run import FAMILIES, Suite
from tests.faults.table import markdown

DEFAULT_ROUNDS = sum(kind.rounds for family in FAMILIES for kind in family.kinds)
BUDGET_S = 420.0


def main() -> int:
    """Exit code 1 when something was not survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--rounds", type=int, default=DEFAULT_ROUNDS, help="in all [%(default)s]")
    parser.add_argument("--seconds", type=float, default=BUDGET_S, help="no round begins after them [%(default)s]")
    parser.add_argument("--lanes", type=int, default=4, help="rigs side by side [%(default)s]")
    parser.add_argument("--seed", type=int, default=20261201)
    parser.add_argument("--only", default="", help="families or kinds that hold this text")
    parser.add_argument("--list", action="store_true", help="name the kinds and leave")
    options = parser.parse_args()
    families = [chosen for family in FAMILIES if (chosen := _only(family, options.only)).kinds]
    if options.list:
        print("\n".join(f"{family.name:10} {kind.name}" for family in families for kind in family.kinds))
        return 0
    home = Path(tempfile.mkdtemp(prefix="faults-"))
    os.environ[HOME_VARIABLE] = str(home / "home")
    begun = time.monotonic()
    suite = Suite(
        families,
        rounds=min(options.rounds, _sum(families)) if options.only else options.rounds,
        budget_s=options.seconds,
        seed=options.seed,
        tell=lambda line: print(line, file=sys.stderr, flush=True),
    )
    try:
        suite.run(home, options.lanes)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    print(markdown(suite.tallies.values()))
    print(
        f"\n{time.monotonic() - begun:.0f} s, {os.cpu_count()} cores, {options.lanes} rigs side by side, seed {options.seed}"
    )
    failures = [(tally.kind.name, why) for tally in suite.tallies.values() for why in tally.failures]
    for name, why in failures:
        print(f"- {name}: {why}")
    return 1 if failures else 0


def _sum(families):
    return sum(kind.rounds for family in families for kind in family.kinds)


def _only(family, text):
    import dataclasses

    kinds = tuple(kind for kind in family.kinds if text in family.name or text in kind.name)
    return dataclasses.replace(family, kinds=kinds)


if __name__ == "__main__":
    sys.exit(main())
