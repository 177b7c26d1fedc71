"""The operations on how an engine speculates: depth and drafter, live where the engine can, by drain and restart elsewhere."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from console import rig
from console.agent import forecast
from console.agent.actions import text_argument
from console.agent.configuration import Configuration
from console.agent.guard import Rule
from console.agent.guarded import WATCH, Guarded
from console.agent.live import LiveControl
from console.agent.operate import RolledBackError, Run
from console.agent.relaunch import BACK, Relauncher
from console.engine import loads
from console.engine.logtext import sanitize
from console.errors import ConsoleError, ExitCode

VERDICT = "judge the drafter"
EXCHANGE = "exchange the weights on every rank"
PROOF = "prove it by checksum"
DEEPEST = 64
"""As the profile's schema has it."""
EFFECT_S = 10.0
"""The probe reports four to ten times a second; a longer silence is no proof."""
EFFECT_PERIOD_S = 0.1
IDLE_AFTER_S = 1.5
"""The feed's file is renewed once a second."""


class Judgement(NamedTuple):
    """A verdict on a drafter, reduced to what an operation needs."""

    refused: str = ""
    """Why it must not be launched; empty when it may."""
    warning: str = ""


class Judge:
    """Gives verdicts on drafters; blocks. The drafters' room is imported when it is asked."""

    NEVER = frozenset({"incompatible", "unreadable", "convert", "fine-tune-start"})

    def __call__(self, drafter: str, *, target: str, running: str, algorithm: str) -> Judgement:
        """The verdict; a fact that cannot be had (the hub, a file) is a warning, not a no."""
        from console.drafters import check

        del running  # what it replaces does not decide whether it fits
        try:
            judgement, _ = check.check(drafter, target=target, algorithm=algorithm)
        except ConsoleError as error:
            return Judgement(warning=f"no verdict: {error.line}")
        if str(judgement.verdict) in self.NEVER:
            return Judgement(refused=f"{judgement.verdict}: {judgement.why}")
        known = str(judgement.verdict) != "unknown"
        return Judgement(warning="" if known else f"no verdict: {judgement.why}")


class _Change:
    """What both changes share."""

    kind = ""

    def __init__(self, relauncher: Relauncher, live: LiveControl, guarded: Guarded) -> None:
        self._relauncher = relauncher
        self._supervisor = relauncher.supervisor
        self._live = live
        self._guarded = guarded

    def _configuration(self) -> Configuration | None:
        """What runs; ``None`` when nothing that was launched here runs."""
        record = self._supervisor.record
        return record.configuration if self._supervisor.ready and record is not None else None

    def _why_not(self) -> str:
        if self._supervisor.attached_url:
            return (
                f"{self._supervisor.attached_url} was started by somebody else and has no probe that answers: "
                "it can only be watched"
            )
        if self._supervisor.alive:
            return "the engine is not ready yet"
        return "no engine runs: console run PROFILE"

    async def _restart_preview(
        self,
        wanted: Configuration,
        title: str,
        why: str,
        changes: tuple[rig.Change, ...],
        warnings: tuple[str, ...] = (),
    ) -> rig.Preview:
        try:
            prepared = await self._relauncher.prepare(wanted)
        except ConsoleError as error:
            return rig.Preview(self.kind, title, "restart", why, changes, refused=error.line)
        expected = await self._relauncher.forecast(wanted)
        return rig.Preview(
            self.kind,
            title,
            "restart",
            why,
            changes,
            expected.seconds,
            expected.rests_on or "this profile has not been started on this rig yet",
            (*warnings, *prepared.launch.warnings),
        )

    async def _live_preview(
        self, title: str, changes: tuple[rig.Change, ...], warnings: tuple[str, ...] = ()
    ) -> rig.Preview:
        expected = forecast.live_s(await self._relauncher.operations(), self.kind)
        return rig.Preview(self.kind, title, "live", "", changes, expected.seconds, expected.rests_on, warnings)


class Depth(_Change):
    """Change how many tokens the drafter proposes a round; 0 is speculation off, ``null`` SGLang's own choice."""

    kind = "depth"

    async def preview(self, args: Mapping[str, Any]) -> rig.Preview:
        """From which depth to which, live or by restart."""
        depth = depth_argument(args)
        title = "depth auto" if depth is None else f"depth {depth}"
        running = self._configuration()
        if running is None:
            return rig.Preview("depth", title, refused=self._why_not())
        spec = running.profile.speculation
        if not spec.algorithm:
            refused = f"profile {running.profile.name} has no speculation: launch one that has"
            return rig.Preview("depth", title, refused=refused)
        now, pinned = self._live.depth()
        before = now if now is not None else _launch_depth(running)
        said = "?" if before is None else str(before)
        after = "SGLang's own choice" if depth is None else "0 (no speculation)" if depth == 0 else str(depth)
        changes = (rig.Change("depth", f"{said} (pinned)" if pinned is not None else said, after),)
        if self._why_restart(depth) == "":
            return await self._live_preview(title, changes)
        if before == depth or (depth is None and running.depth is None):
            return rig.Preview("depth", title, changes=changes, refused=f"depth is {said} already")
        return await self._restart_preview(self._wanted(running, depth), title, self._why_restart(depth), changes)

    def _why_restart(self, depth: int | None) -> str:
        """Why it takes a restart; empty when it can be done live."""
        status = self._live.capabilities()
        steps = self._live.candidate_steps
        if not status.depth_live:
            return status.depth_why or status.why
        if depth is not None and depth not in steps:
            return f"depth {depth} was not prebuilt (prebuilt: {', '.join(map(str, steps)) or 'none'})"
        return ""

    def _wanted(self, running: Configuration, depth: int | None) -> Configuration:
        """Prebuilt depths are of use with a probe only: without one, SGLang's own policy would leave the depth asked for."""
        fixed = depth is not None and not self._live.capabilities().present
        return msgspec.structs.replace(running, depth=depth, fixed=fixed)

    async def run(self, args: Mapping[str, Any], run: Run) -> str:
        """Set it, and see that it is so."""
        depth = depth_argument(args)
        running = self._configuration()
        if running is None:
            raise ConsoleError(self._why_not())
        wanted = self._wanted(running, depth)
        if self._why_restart(depth):
            return await self._relauncher.replace(wanted, run)
        run.plan(["tell every rank", "see it in the next rounds"])
        run.step("tell every rank")
        run.cancellable(possible=False)
        now, former = self._live.depth()
        rule = self._guarded.depth_rule(running.profile, now, depth or 0)
        await self._live.set_depth(depth)
        run.step("see it in the next rounds")
        note = await self._verify(depth)
        self._supervisor.remember(wanted)
        if depth and args.get("watch") is True:
            return await self._watch(depth, rule, former, running, run)
        return ("SGLang's own policy decides" if depth is None else f"depth {depth}") + note

    async def _watch(self, depth: int, rule: Rule, former: int | None, running: Configuration, run: Run) -> str:
        """Watched only when asked for: a depth is one key away, and a watch holds up the next key.

        Raises:
            RolledBackError: the former depth is in force again.
        """
        drafter = running.effective().speculation.drafter
        try:
            outcome = await self._guarded.see(run, rule, drafter=drafter, profile=running.profile.name)
        except asyncio.CancelledError:
            if not run.cancelled:
                raise
            why = "it was cancelled while it was watched"
        else:
            if outcome.kept:
                return f"depth {depth}; {outcome.message}"
            why = outcome.message
        run.fail_step(why)
        run.settle()
        run.step(BACK, "SGLang's own policy" if former is None else f"depth {former}")
        run.cancellable(possible=False)
        await self._live.set_depth(former)
        self._supervisor.remember(running)
        raise RolledBackError(f"taken back: {'the policy decides' if former is None else f'depth {former}'}", why=why)

    async def _verify(self, depth: int | None) -> str:
        """See that it is so.

        Returns:
            What there is to add: an engine without requests changes at its next round.

        Raises:
            ConsoleError: it is not so.
        """
        deadline = time.monotonic() + EFFECT_S
        idle_after = time.monotonic() + IDLE_AFTER_S
        while True:
            now, pinned = self._live.depth()
            if pinned == depth and (depth is None or now == depth):
                return ""
            if pinned == depth and time.monotonic() > idle_after and await self._idle():
                return ", from the next round on: nothing is running"
            if time.monotonic() > deadline:
                raise ConsoleError(
                    f"the engine took the order and its feed does not show depth {depth}",
                    why=f"it says depth {now}, pinned {pinned}",
                    todo="an engine without requests changes at its next round: look again under load",
                )
            await asyncio.sleep(EFFECT_PERIOD_S)

    async def _idle(self) -> bool:
        """Whether the engine says that it has nothing to do."""
        try:
            async with self._supervisor.client() as client:
                return loads.parse(await client.loads()).running == 0
        except ConsoleError:
            return False


class Swap(_Change):
    """Exchange the drafter.

    Args:
        relauncher: starts engines.
        live: changes without a restart.
        guarded: watches what was changed.
        judge: gives the verdict first.
    """

    kind = "swap"

    def __init__(
        self,
        relauncher: Relauncher,
        live: LiveControl,
        guarded: Guarded,
        judge: Callable[..., Judgement] | None = None,
    ) -> None:
        super().__init__(relauncher, live, guarded)
        self._judge = judge or Judge()

    async def preview(self, args: Mapping[str, Any]) -> rig.Preview:
        """From which drafter to which, with the verdict, live or by restart."""
        drafter = drafter_argument(args)
        title = f"swap drafter to {sanitize(drafter)}"
        running = self._configuration()
        if running is None:
            return rig.Preview("swap", title, refused=self._why_not())
        spec = running.effective().speculation
        if not running.profile.speculation.algorithm:
            refused = f"profile {running.profile.name} has no speculation: launch one that has"
            return rig.Preview("swap", title, refused=refused)
        now = spec.drafter or running.drafter or running.profile.speculation.drafter
        changes = (rig.Change("drafter", now, drafter),)
        if drafter == now and spec.algorithm:
            return rig.Preview("swap", title, changes=changes, refused="this drafter is loaded already")
        if await asyncio.to_thread(_is_missing, drafter):
            return rig.Preview(
                "swap", title, changes=changes, refused=f"{sanitize(drafter)} is no folder on this machine"
            )
        judgement = await self._judgement(drafter, running, now)
        if judgement.refused:
            return rig.Preview("swap", title, changes=changes, refused=judgement.refused)
        warnings = (judgement.warning,) if judgement.warning else ()
        status = self._live.capabilities()
        if status.swap_live and spec.algorithm:
            return await self._live_preview(title, changes, warnings)
        return await self._restart_preview(
            self._wanted(running, drafter), title, status.swap_why or status.why, changes, warnings
        )

    @staticmethod
    def _wanted(running: Configuration, drafter: str) -> Configuration:
        """With depth 0 there is nothing to load a drafter into: whoever asks for one wants to speculate."""
        depth = running.depth if running.effective().speculation.algorithm else None
        return msgspec.structs.replace(running, drafter=drafter, depth=depth)

    async def _judgement(self, drafter: str, running: Configuration, now: str) -> Judgement:
        profile = running.profile
        if profile.engine.simulated:
            return Judgement()
        return await asyncio.to_thread(
            self._judge,
            drafter,
            target=profile.engine.model,
            running=now,
            algorithm=profile.speculation.algorithm,
        )

    async def run(self, args: Mapping[str, Any], run: Run) -> str:
        """Verdict, exchange, proof, watch; keep it, or take it back."""
        drafter = drafter_argument(args)
        running = self._configuration()
        if running is None:
            raise ConsoleError(self._why_not())
        now = running.effective().speculation.drafter
        rule = self._guarded.rule(running.profile)
        is_live = self._live.capabilities().swap_live and bool(now)
        run.plan([VERDICT, EXCHANGE, PROOF, WATCH] if is_live else [VERDICT, WATCH])
        run.step(VERDICT)
        judgement = await self._judgement(drafter, running, now)
        if judgement.refused:
            raise ConsoleError(f"{sanitize(drafter)} is refused", why=judgement.refused)
        run.detail(judgement.warning or "nothing speaks against it")
        wanted = self._wanted(running, drafter)
        if is_live:
            message = await self._exchange(drafter, run)
            self._supervisor.remember(wanted)
        else:
            message = await self._relauncher.replace(wanted, run)
        try:
            outcome = await self._guarded.see(
                run, rule, drafter=drafter, profile=running.profile.name, alive=lambda: self._supervisor.alive
            )
        except asyncio.CancelledError:
            if not run.cancelled:
                raise
            why = ConsoleError("it was cancelled while it was watched")
        else:
            if outcome.kept:
                return f"{message}; {outcome.message}"
            why = ConsoleError(outcome.message)
        if is_live and self._supervisor.alive:
            return await self._swap_back(now, running, why, run)
        return await self._relauncher.go_back(running, why, run)

    async def _exchange(self, drafter: str, run: Run) -> str:
        """Load it on every rank, or on none; the engine proves by checksum that it is the one."""
        run.step(EXCHANGE)
        run.cancellable(possible=False)
        answer = await self._live.swap(drafter)
        run.step(PROOF, answer)
        return answer or f"drafter {drafter}"

    async def _swap_back(self, drafter: str, running: Configuration, why: ConsoleError, run: Run) -> str:
        """Load what drafted before.

        Raises:
            RolledBackError: it drafts again.
            ConsoleError: it does not.
        """
        run.fail_step(why.line)
        run.settle()
        run.plan([BACK])
        run.step(BACK, drafter)
        run.cancellable(possible=False)
        try:
            answer = await self._live.swap(drafter)
        except ConsoleError as error:
            raise ConsoleError(why.line, why=f"and {drafter} could not be brought back: {error.line}") from error
        self._supervisor.remember(running)
        raise RolledBackError(f"taken back: {answer or drafter}", why=why.line)


def depth_argument(args: Mapping[str, Any]) -> int | None:
    """The depth asked for.

    Raises:
        ConsoleError: it is missing or none.
    """
    depth = args.get("depth", "")
    if depth is None:
        return None
    if isinstance(depth, bool) or not isinstance(depth, int) or not 0 <= depth <= DEEPEST:
        raise ConsoleError(
            f"{depth!r} is no depth",
            todo=f"give a whole number from 0 (no speculation) to {DEEPEST}, or auto",
            code=ExitCode.USAGE,
        )
    return depth


def drafter_argument(args: Mapping[str, Any]) -> str:
    """The drafter asked for: a folder as an absolute path, or a repository of the hub."""
    drafter = text_argument(args, "drafter", "FOLDER or org/name")
    return str(Path(drafter).expanduser()) if drafter.startswith("~") else drafter


def _is_missing(drafter: str) -> bool:
    """Whether it names a folder that is not there; a repository of the hub is ``org/name``."""
    is_path = drafter.startswith(("/", "./", "../")) or drafter.count("/") > 1
    return is_path and not Path(drafter).is_dir()


def _launch_depth(configuration: Configuration) -> int | None:
    spec = configuration.effective().speculation
    return spec.steps if spec.algorithm else 0
