"""The operation that makes a profile the one that runs: live where everything in it can be, else by one restart."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from console import rig
from console.agent import running
from console.agent.actions import text_argument
from console.agent.configuration import Configuration
from console.agent.live import LiveControl
from console.agent.operate import Action, Run
from console.agent.relaunch import Relauncher
from console.agent.running import Reach, Step
from console.engine.logtext import sanitize
from console.errors import ConsoleError
from profiles.schema import Profile

ADOPT = "keep the profile"


class Gauge(Protocol):
    """Is told that another profile's targets hold."""

    def profile_changed(self, profile: Profile) -> None:
        """The running engine's profile holds other targets from now on."""


class Apply:
    """Sort the changes, do them.

    Args:
        relauncher: the engine, and the way through a restart.
        live: changes without one.
        load: a profile by name or path.
        depth: the operation on depth.
        swap: the operation on the drafter.
        gauge: measures against the profile's targets.
    """

    def __init__(
        self,
        relauncher: Relauncher,
        live: LiveControl,
        load: Callable[[str], Profile],
        depth: Action,
        swap: Action,
        gauge: Gauge,
    ) -> None:
        self._relauncher = relauncher
        self._supervisor = relauncher.supervisor
        self._live = live
        self._load = load
        self._depth = depth
        self._swap = swap
        self._gauge = gauge

    async def preview(self, args: Mapping[str, Any]) -> rig.Preview:
        """Each changed key, with what it takes."""
        name = text_argument(args, "profile", "NAME")
        title = f"apply {sanitize(name)}"
        try:
            now, wanted, found = await self._found(name)
        except ConsoleError as error:
            return rig.Preview("apply", title, refused=error.line)
        if not found and now.profile.name == wanted.name:
            return rig.Preview("apply", title, refused=f"{wanted.name} runs already, with nothing changed")
        why = self._why_restart(found, wanted)
        changes = tuple(
            rig.Change(f"{step.key} ({_how(step, why)})", _said(step.before), _said(step.after)) for step in found
        )
        if now.profile.name != wanted.name:
            changes = (rig.Change("profile", now.profile.name, wanted.name), *changes)
        if not why:
            return rig.Preview("apply", title, "live", "", changes)
        configuration = Configuration(wanted)
        try:
            prepared = await self._relauncher.prepare(configuration)
        except ConsoleError as error:
            return rig.Preview("apply", title, "restart", why, changes, refused=error.line)
        expected = await self._relauncher.forecast(configuration)
        rests_on = expected.rests_on or "this profile has not been started on this rig yet"
        return rig.Preview(
            "apply", title, "restart", why, changes, expected.seconds, rests_on, prepared.launch.warnings
        )

    async def run(self, args: Mapping[str, Any], run: Run) -> str:
        """Drafter first, then depth, then the profile is the running one; or one restart for all of it."""
        _, wanted, found = await self._found(text_argument(args, "profile", "NAME"))
        if self._why_restart(found, wanted):
            return await self._relauncher.replace(Configuration(wanted), run)
        said, reaches = [], {step.reach for step in found}
        if Reach.DRAFTER in reaches:
            said.append(await self._swap.run({"drafter": wanted.speculation.drafter}, run))
        if Reach.DEPTH in reaches:
            said.append(await self._depth.run({"depth": wanted.speculation.steps}, run))
        run.step(ADOPT)
        self._supervisor.remember(Configuration(wanted))
        self._gauge.profile_changed(wanted)
        return "; ".join([*said, f"profile {wanted.name}"])

    async def _found(self, name: str) -> tuple[Configuration, Profile, tuple[Step, ...]]:
        record = self._supervisor.record
        if not self._supervisor.ready or record is None or self._supervisor.attached_url:
            raise running.nothing_runs()
        wanted = await asyncio.to_thread(self._load, name)
        return record.configuration, wanted, running.steps(running.as_profile(record.configuration), wanted)

    def _why_restart(self, found: tuple[Step, ...], wanted: Profile) -> str:
        status = self._live.capabilities()
        return running.why_restart(
            found,
            wanted,
            depth_why="" if status.depth_live else status.depth_why or status.why,
            swap_why="" if status.swap_live else status.swap_why or status.why,
            prebuilt=self._live.candidate_steps,
        )


def _how(step: Step, why_restart: str) -> str:
    if step.reach is Reach.NOTHING:
        return "console only"
    return "restart" if why_restart else "live"


def _said(value: object) -> str:
    return "default" if value is None else value if isinstance(value, str) else json.dumps(value, default=str)
