"""``python -m console.agent --rig NAME``: the rig's daemon, in the foreground or detached."""

from __future__ import annotations

import os
import sys


def main(argv: list[str]) -> int:
    """Run an agent until it is told to end; its exit code."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m console.agent", description=__doc__)
    parser.add_argument("--rig", default="default", help="which rig")
    parser.add_argument("--simulated", action="store_true", help="simulated GPUs, and only simulated engines")
    parser.add_argument("--detach", action="store_true", help="leave the terminal and the session that started it")
    parser.add_argument("--ready-fd", type=int, default=-1, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.detach and os.fork():
        os._exit(0)  # the session leader ends: no terminal can become the agent's again
    from console.agent.daemon import run

    return run(options.rig, simulated=options.simulated, detached=options.detach, ready_fd=options.ready_fd)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
