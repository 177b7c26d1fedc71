"""As much of SGLang as the probe touches."""

from __future__ import annotations

from types import SimpleNamespace


class Mode:
    def __init__(self, extend: bool) -> None:
        self._extend = extend

    def is_extend(self) -> bool:
        return self._extend


class Request:
    def __init__(self, *, ended: bool = False, is_retracted: bool = False) -> None:
        self._ended = ended
        self.is_retracted = is_retracted

    def finished(self) -> bool:
        return self._ended


class Batch:
    def __init__(self, requests: int | list[Request] = 1, *, extend: bool = False) -> None:
        self.reqs = requests if isinstance(requests, list) else [Request() for _ in range(requests)]
        self.forward_mode = Mode(extend)


class Worker:
    """A speculative worker; ``depth`` may be changed between rounds."""

    topk = 1

    def __init__(self, depth: int = 3) -> None:
        self.speculative_num_steps = depth
        self.calls: list[str] = []

    def forward_batch_generation(self, batch: Batch) -> SimpleNamespace:
        if not batch.forward_mode.is_extend():
            self.draft(batch)
            self.verify(batch)
            self._draft_extend_for_decode(batch, None)
        return SimpleNamespace(speculative_num_draft_tokens=self.speculative_num_steps + 1)

    def draft(self, batch: Batch) -> str:
        self.calls.append("draft")
        return "drafted"

    def verify(self, batch: Batch) -> str:
        self.calls.append("verify")
        return "verified"

    def _draft_extend_for_decode(self, batch: Batch, batch_result: object) -> str:
        self.calls.append("extend")
        return "extended"


def resolve(processor: object, result: SimpleNamespace, batch: Batch) -> list[int]:
    """SGLang's own reading of a result: sets what was accepted, and may end requests."""
    result.num_correct_drafts_per_req_cpu = [length - 1 for length in result.accept_lens]
    for req in batch.reqs:
        req._ended = True
    return result.accept_lens
