"""Hostile drafters: 10 000 made-up headers and configs through the whole check; counts, slowest, most memory."""

from __future__ import annotations

import json
import random
import struct
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from console.drafters.check import check
from console.drafters.header import HEADER_LIMIT_BYTES
from console.errors import ConsoleError
from tests.bench.table import mib, ms, show
from tests.drafters.build import MLA, TINY, config, header_bytes, target, tensors_of

EXAMPLES = 10_000
SEED = 20261201
MOST_MS, MOST_BYTES = 100.0, 64 << 20
ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1 << 70,
    1e308,
    float("nan"),
    "",
    "x" * 5000,
    [],
    {},
    [[]],
    {"a": {"a": {}}},
    "\x1b[2J",
    "64",
)
KEYS = (
    *TINY,
    "text_config",
    "rope_parameters",
    "transformer_layer_config",
    "speculators_config",
    "q_lora_rank",
    "quantization_config",
)


def configs(rng: random.Random) -> bytes:
    """A config with some values replaced, or bytes that are none."""
    kind = rng.randrange(10)
    if kind == 0:
        return rng.randbytes(rng.randrange(400))
    if kind == 1:
        return b"[" * rng.randrange(1 << 19)
    made = config(rng.choice((TINY, MLA)))
    for key in rng.sample(KEYS, rng.randrange(6)):
        made[key] = rng.choice(ODD)
    text = json.dumps(made).encode()
    return text[: rng.randrange(len(text))] if kind == 2 else text


def weights(rng: random.Random) -> bytes:
    """A file whose header lies in one way or another."""
    kind = rng.randrange(10)
    head, size, _ = header_bytes(tensors_of(config(rng.choice((TINY, MLA)))))
    if kind == 0:
        return rng.randbytes(rng.randrange(2000))
    if kind == 1:
        return struct.pack("<Q", rng.choice((0, 1, 1 << 20, 1 << 40, (1 << 64) - 1))) + head[8:]
    if kind == 2:
        count = rng.randrange(1, HEADER_LIMIT_BYTES // 12)
        text = (
            b'{"a":' * (count // 3)
            if rng.random() < 0.5
            else b"{" + b",".join(b'"%d":{}' % n for n in range(count // 2)) + b"}"
        )
        text = text[: HEADER_LIMIT_BYTES - 8]
        return struct.pack("<Q", len(text)) + text
    entries = json.loads(head[8:])
    for name in rng.sample(sorted(entries), rng.randrange(4)):
        entries[name] = rng.choice(
            (
                *ODD,
                {
                    "dtype": "BF16",
                    "shape": [rng.choice((0, -1, 1 << 62))] * rng.randrange(12),
                    "data_offsets": [0, rng.randrange(99)],
                },
            )
        )
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + bytes(max(0, size + rng.choice((0, 0, 0, -7, 9))))


def examples(rng: random.Random) -> Iterator[tuple[bytes, bytes]]:
    """Config and weights; half of them with one sound half."""
    sound = json.dumps(config()).encode()
    head, size, _ = header_bytes(tensors_of(config()))
    for number in range(EXAMPLES):
        yield (sound if number % 4 == 0 else configs(rng)), (head + bytes(size) if number % 4 == 1 else weights(rng))


def run() -> None:
    """Print what became of them; the budget is no traceback, under 100 ms and under 64 MiB each."""
    rng = random.Random(SEED)
    verdicts: Counter[str] = Counter()
    slowest_s, most_bytes = 0.0, 0
    with tempfile.TemporaryDirectory(prefix="console-hostile-") as folder:
        goal, drafter = target(Path(folder) / "target"), Path(folder) / "drafter"
        drafter.mkdir()
        for number, (text, data) in enumerate(examples(rng)):
            (drafter / "config.json").write_bytes(text)
            (drafter / "model.safetensors").write_bytes(data)
            traced = number % 10 == 0  # tracing doubles the time, so it is not measured in the same round
            if traced:
                tracemalloc.start()
            begin = time.thread_time()
            try:
                verdicts[check(str(drafter), target=str(goal))[0].verdict] += 1
            except ConsoleError:
                verdicts["refused in one line"] += 1
            passed = time.thread_time() - begin
            if traced:
                most_bytes = max(most_bytes, tracemalloc.get_traced_memory()[1])
                tracemalloc.stop()
            else:
                slowest_s = max(slowest_s, passed)
    rows = [[name, str(count)] for name, count in verdicts.most_common()]
    show(f"{EXAMPLES} hostile drafters, none with a traceback", ["verdict", "count"], rows)
    over = slowest_s * 1000 > MOST_MS or most_bytes > MOST_BYTES
    budget = f"{MOST_MS:.0f} ms, {mib(MOST_BYTES)}"
    show(
        "the worst of them",
        ["", "slowest (CPU time)", "most memory", "budget"],
        [["OVER" if over else "within", ms(slowest_s), mib(most_bytes), budget]],
    )
