"""Commands.

A number through SGLang's own control channel, which every rank handles in the same iteration, and a file with the
payload.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sglang_console_probe.agree import Agreement
from sglang_console_probe.checkpoint import CheckpointRefused
from sglang_console_probe.depth import DepthRefused
from sglang_console_probe.files import read_object, write_whole
from sglang_console_probe.guard import Hook, reason
from sglang_console_probe.place import Place
from sglang_console_probe.swap import Outcome

logger = logging.getLogger("sglang_console_probe")

KEY = "spec_console_cmd"
KEPT_S = 600.0
"""Files of older commands are taken away after so long."""


class Commands:
    """Executes commands on this rank.

    Args:
        folder: shared with the agent.
        place: this rank among the others.
        operations: name -> what executes it, given payload, number and agreement; ``None`` when it answers later.
    """

    def __init__(self, folder: Path, place: Place, operations: dict[str, Callable[..., Any]]) -> None:
        self.hook = Hook("commands")
        self._folder = folder
        self._place = place
        self._operations = operations
        self._newest: tuple[int, Outcome | None] = (0, None)

    def around(self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Around ``set_internal_state(self, recv_req)``.

        Takes the probe's own key out, leaves the others to SGLang. Never raises by itself.
        """
        request: Any = args[1] if len(args) > 1 else kwargs.get("recv_req")
        values = getattr(request, "server_args", None)
        if not isinstance(values, dict) or KEY not in values:
            return original(*args, **kwargs)
        ok = self._guarded(values[KEY])
        rest = {key: value for key, value in values.items() if key != KEY}
        if rest:
            request.server_args = rest
            answer = original(*args, **kwargs)
            answer.updated = bool(answer.updated) and ok
            return answer
        return reply(ok)

    def _guarded(self, number: Any) -> bool:
        """Execute and answer.

        An error of the probe's own turns commands off; later ones are answered with that, so that nobody waits for this rank.
        """
        try:
            outcome = self._execute(int(number)) if self.hook.on else self._off(number)
        except Exception as error:
            self.hook.failed(error)
            outcome = self._off(number)
        if outcome is None:
            return True
        try:
            self.answer(int(number), outcome)
        except Exception as error:
            logger.warning("The console's probe cannot answer command %s: %s", number, reason(error))
        return outcome.ok

    def _off(self, number: Any) -> Outcome:
        return self._decline(number, f"commands: {self.hook.state}")

    def _decline(self, number: Any, why: str) -> Outcome:
        """Refuse, also towards the ranks that vote on it now: they would wait for this one."""
        try:
            Agreement(self._folder, int(number), self._place.rank, self._place.ranks).decline(why)
        except Exception as error:
            logger.warning("The console's probe cannot decline command %s: %s", number, reason(error))
        return Outcome(ok=False, message=why)

    def _execute(self, number: int) -> Outcome | None:
        """What came of it, ``None`` when the operation answers later."""
        self.hook.spring()
        if number == self._newest[0]:
            return self._newest[1]  # sent again after a broken connection
        outcome = self._fresh(number)
        self._newest = (number, outcome)
        return outcome

    def _fresh(self, number: int) -> Outcome | None:
        if self._place.rank == 0:
            self._sweep()
        try:
            payload = read_object(self._folder / f"cmd-{number}.json")
        except (ValueError, OSError) as error:
            return self._decline(number, f"cmd-{number}.json: {error}")
        if payload is None:
            return self._decline(number, f"cmd-{number}.json is not there")
        name = str(payload.get("op"))
        if name not in self._operations:
            return self._decline(number, f"no command {name!r}; there are {', '.join(sorted(self._operations))}")
        agreement = Agreement(self._folder, number, self._place.rank, self._place.ranks)
        try:
            return self._operations[name](payload, number, agreement)  # type: ignore[no-any-return]
        except (DepthRefused, CheckpointRefused) as error:
            return self._decline(number, str(error))
        except Exception as error:
            logger.warning("The console's probe failed at command %s: %s", name, reason(error), exc_info=error)
            return self._decline(number, reason(error))

    def answer(self, number: int, outcome: Outcome) -> None:
        """Leave this rank's answer in the folder.

        Raises:
            OSError: it cannot be written.
        """
        body = {
            "ok": outcome.ok,
            "message": outcome.message,
            "seconds": outcome.seconds,
            "checksum": outcome.checksum,
            "rank": self._place.rank,
            "at_s": round(time.time(), 3),
        }
        write_whole(self._folder / f"ack-{number}-{self._place.rank}.json", json.dumps(body).encode())

    def _sweep(self) -> None:
        """Take old votes, decisions, commands and answers away."""
        before = time.time() - KEPT_S
        for pattern in ("vote-*", "decision-*", "cmd-*", "ack-*"):
            for path in self._folder.glob(pattern):
                if path.stat().st_mtime < before:
                    path.unlink(missing_ok=True)


def reply(ok: bool) -> Any:
    """SGLang's answer to ``/set_internal_state``. Until 0.5.15 it also carries the arguments."""
    from sglang.srt.managers.io_struct import SetInternalStateReqOutput

    try:
        return SetInternalStateReqOutput(updated=ok)
    except TypeError:
        return SetInternalStateReqOutput(updated=ok, server_args={})
