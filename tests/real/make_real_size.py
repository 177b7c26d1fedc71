"""The constructed pair at the width of a trillion-parameter model's drafter: 2.38 GB a drafter.

The target has eight layers: with fewer there are no three different ones to capture hidden states from.

Tensors as knowledge of Kimi-K2-Instruct-eagle3 has them (hidden 7168, intermediate 18432, 64 heads of 128, draft vocabulary 32000); the
vocabulary is cut to 32768 so that the target stays small. Runs with the engine's Python: ``python make_real_size.py FOLDER``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import make_checkpoints as make

WIDE = make.Shape(hidden=7168, layers=8, heads=64, kv_heads=64, intermediate=18432, head_dim=128)


def main() -> None:
    """Make target, drafter-a and drafter-b; ``info.json`` is written last."""
    folder = Path(sys.argv[1])
    make.VOCABULARY, make.DRAFT_VOCABULARY = 32768, 32000
    make.make_target(folder / "target", WIDE)
    info: dict[str, object] = {"cycle": make.cycle().tolist()}
    for name, right, seed in (("drafter-a", 0.50, 1), ("drafter-b", 0.85, 2)):
        info[name] = {"right": make.make_drafter(folder / name, WIDE, right, seed)}
    (folder / "info.json").write_text(json.dumps(info))


if __name__ == "__main__":
    main()
