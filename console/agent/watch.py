"""Following a start: until the server takes requests, and then until it has generated a token."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Any, Self

from console import rig
from console.agent.logtail import LogTail
from console.engine.http import EngineRefused, EngineUnreachable
from console.errors import ConsoleError

POLL_PERIOD_S = 0.2
ASK_PERIOD_S = 1.0
SURE_AFTER = 3
"""Without the log's word, so many answers in a row that the server is ready are believed."""
FIRST_TOKEN_S = 3600.0
"""Some engines compile for minutes at their first request."""
FIRST_TOKEN = {"input_ids": [10, 11, 12], "sampling_params": {"temperature": 0, "max_new_tokens": 1}}
"""The token ids that SGLang's own warm-up uses where it has no tokenizer."""
NEVER_ENDS = frozenset({"port-taken"})
"""Failures after which SGLang stays, with all its processes and memory."""


class StartWatch:
    """Watches one start. The engine's end is somebody else's business.

    Args:
        client: HTTP client of the engine, not entered yet.
        tail: its log.
        give_up_s: after so many seconds the start counts as failed; 0: never.
    """

    def __init__(self, client: Any, tail: LogTail, give_up_s: float = 0.0) -> None:
        self._client = client
        self._tail = tail
        self._give_up_s = give_up_s
        self._begun = time.monotonic()

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.__aexit__(kind, error, trace)

    async def until_listening(self) -> rig.Failure | None:
        """Wait until the server takes requests.

        The log's word and an answer over HTTP are both wanted; a log that was told to be silent is made up for by
        repeated answers of ``/ready``.

        Returns:
            The failure of an engine that has failed and does not end by itself.
        """
        sure, ask_at = 0, 0.0
        while True:
            state = self._tail.state
            stuck = next((found for found in state.failures if found.kind in NEVER_ENDS), None)
            if stuck is not None:
                return stuck
            if self._give_up_s and time.monotonic() - self._begun > self._give_up_s:
                return rig.Failure("start-timeout", f"not ready after {self._give_up_s:g} s (engine.start_timeout_s)")
            if state.ready or time.monotonic() >= ask_at:
                ask_at = time.monotonic() + ASK_PERIOD_S
                sure = sure + 1 if await self._answers() else 0
            if sure >= (1 if state.ready else SURE_AFTER):
                return None
            await asyncio.sleep(POLL_PERIOD_S)

    async def _answers(self) -> bool:
        try:
            return bool(await self._client.ready())
        except ConsoleError:
            return False

    async def first_token(self) -> str:
        """Have one token generated: only then the engine is ready.

        Returns:
            A note when the server answers but would not generate for us.
        """
        while True:
            try:
                await self._client.generate(FIRST_TOKEN, deadline_s=FIRST_TOKEN_S)
            except EngineRefused as refused:
                return f"no first token was asked for: {refused.line}"
            except EngineUnreachable:
                await asyncio.sleep(ASK_PERIOD_S)
            else:
                return ""
