"""A bounded load on the real engine that checks every token it gets.

The constructed target's next token is an exact function of the last one (make_checkpoints.py), whatever the drafter, the depth or the batch:
one wrong token means that speculation changed the text.

    python -m tests.real.load URL CHECKPOINTS [--clients 2] [--seconds 60]
"""

from __future__ import annotations

import argparse
import json
import random
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self


@dataclass
class Result:
    """What came of the load."""

    requests: int = 0
    tokens: int = 0
    failed: list[str] = field(default_factory=list)
    wrong: int = 0
    """Requests with at least one token that is not the cycle's."""
    verifies: int = 0
    accepted: int = 0

    @property
    def accept_len(self) -> float | None:
        """Mean over all verifies of all answers, bonus token included; ``None`` without one."""
        return 1 + self.accepted / self.verifies if self.verifies else None


class Load:
    """Clients that ask one request after another until they are told to stop.

    Args:
        url: the engine.
        checkpoints: folder that make_checkpoints.py wrote.
        clients: how many at a time.
        tokens: tokens asked for in each request.
    """

    def __init__(self, url: str, checkpoints: Path, *, clients: int = 2, tokens: int = 96) -> None:
        self.url = url
        self.result = Result()
        self._cycle: list[int] = json.loads((checkpoints / "info.json").read_text())["cycle"]
        self._place = {token: index for index, token in enumerate(self._cycle)}
        self._tokens = tokens
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._client, args=(seed,), daemon=True) for seed in range(clients)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self, seconds: float = 60) -> Result:
        """Let the running requests end; what came of all of them."""
        self._stop.set()
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return self.result

    def expected(self, last: int, count: int) -> list[int]:
        """The ``count`` tokens that follow ``last``."""
        place = self._place[last]
        return [self._cycle[(place + step) % len(self._cycle)] for step in range(1, count + 1)]

    def ask(self, prompt: list[int], tokens: int, timeout_s: float = 120) -> dict[str, Any]:
        """One request; the engine's answer."""
        params = {"max_new_tokens": tokens, "temperature": 0, "ignore_eos": True}
        body = json.dumps({"input_ids": prompt, "sampling_params": params}).encode()
        request = urllib.request.Request(f"{self.url}/generate", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=timeout_s) as response:
            answer: dict[str, Any] = json.loads(response.read())
        return answer

    def _client(self, seed: int) -> None:
        chance = random.Random(seed)
        while not self._stop.is_set():
            prompt = chance.choices(self._cycle, k=chance.randint(4, 24))
            try:
                answer = self.ask(prompt, self._tokens)
            except (OSError, ValueError) as error:
                with self._lock:
                    self.result.failed.append(f"{type(error).__name__}: {error}")
                self._stop.wait(0.5)
                continue
            self._count(prompt, answer)

    def _count(self, prompt: list[int], answer: dict[str, Any]) -> None:
        histogram = answer["meta_info"].get("spec_correct_drafts_histogram") or []
        got = answer["output_ids"]
        with self._lock:
            result = self.result
            result.requests += 1
            result.tokens += len(got)
            result.wrong += got != self.expected(prompt[-1], self._tokens)
            result.verifies += sum(histogram)
            result.accepted += sum(index * count for index, count in enumerate(histogram))


def main() -> int:
    """Run a load for some seconds; exit code 1 when a request failed or a token was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("checkpoints", type=Path)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60)
    args = parser.parse_args()
    with Load(args.url, args.checkpoints, clients=args.clients) as load:
        time.sleep(args.seconds)
    result = load.result
    print(
        f"{result.requests} requests, {result.tokens} tokens, {len(result.failed)} failed, {result.wrong} wrong, "
        f"accept_len {result.accept_len or float('nan'):.2f}"
    )
    return int(bool(result.failed or result.wrong))


if __name__ == "__main__":
    raise SystemExit(main())
