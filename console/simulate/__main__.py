"""``python -m console.simulate``: start the simulated engine."""

import sys

from console.simulate.run import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
