"""The operations on a whole engine: launch, stop, restart, attach, detach."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from console import rig
from console.agent.configuration import Configuration
from console.agent.forecast import Forecast
from console.agent.handle import Handle
from console.agent.operate import Run
from console.agent.prepare import Prepared
from console.agent.relaunch import Relauncher
from console.agent.stopping import STEPS
from console.agent.supervise import Supervisor
from console.engine.http import normal_url
from console.engine.logtext import sanitize
from console.errors import ConsoleError, ExitCode
from profiles.schema import Profile


def text_argument(args: Mapping[str, Any], name: str, example: str) -> str:
    """A text that an operation cannot do without.

    Raises:
        ConsoleError: it is missing or is none.
    """
    value = args.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ConsoleError(f"{name} is missing", todo=f'give {{"{name}": "{example}"}}', code=ExitCode.USAGE)
    return value.strip()


def shown(prepared: Prepared, before: Configuration | None) -> tuple[rig.Change, ...]:
    """What a launch changes, for its preview."""
    old = before.effective() if before is not None else None
    new = prepared.profile
    rows = [
        ("profile", old.name if old else "", new.name),
        ("model", old.engine.model if old else "", new.engine.model),
    ]
    rows.append(("drafter", _drafter(old), _drafter(new)))
    rows.append(("depth", _depth(old), _depth(new)))
    rows.append(("address", "", prepared.url))
    rows.append(("SGLang", "", prepared.installation.version_text))
    return tuple(rig.Change(*row) for row in rows if row[1] != row[2] and row[2])


def _drafter(profile: Profile | None) -> str:
    if profile is None:
        return ""
    return profile.speculation.drafter if profile.speculation.algorithm else "no speculation"


def _depth(profile: Profile | None) -> str:
    if profile is None:
        return ""
    if not profile.speculation.algorithm:
        return "0"
    return "SGLang's choice" if profile.speculation.steps is None else str(profile.speculation.steps)


class Launch:
    """Start an engine from a profile where none runs.

    Args:
        relauncher: starts engines.
        load: a profile by name or path.
    """

    def __init__(self, relauncher: Relauncher, load: Callable[[str], Profile]) -> None:
        self._relauncher = relauncher
        self._load = load

    async def preview(self, args: Mapping[str, Any]) -> rig.Preview:
        """What would be launched."""
        name = text_argument(args, "profile", "NAME")
        supervisor = self._relauncher.supervisor
        title = f"launch {sanitize(name)}"
        if supervisor.alive:
            running = supervisor.record.configuration.name if supervisor.record else "an engine"
            return rig.Preview("launch", title, refused=f"{running} runs: stop it first")
        if supervisor.attached_url:
            return rig.Preview(
                "launch", title, "restart", refused=f"attached to {supervisor.attached_url}: detach first"
            )
        try:
            configuration = await self._configuration(name)
            prepared = await self._relauncher.prepare(configuration)
        except ConsoleError as error:
            return rig.Preview("launch", title, refused=error.line)
        expected = await self._relauncher.forecast(configuration)
        return rig.Preview(
            "launch",
            f"launch {configuration.name}",
            changes=shown(prepared, None),
            expected_s=expected.seconds,
            expected_from=expected.rests_on or "this profile has not been started on this rig yet",
            warnings=prepared.launch.warnings,
        )

    async def run(self, args: Mapping[str, Any], run: Run) -> str:
        """Launch, and wait for the first token."""
        return await self._relauncher.replace(await self._configuration(text_argument(args, "profile", "NAME")), run)

    async def _configuration(self, name: str) -> Configuration:
        return Configuration(await asyncio.to_thread(self._load, name))


class Stop:
    """End the engine, or what a dead one left behind."""

    def __init__(self, relauncher: Relauncher) -> None:
        self._relauncher = relauncher

    async def preview(self, args: Mapping[str, Any]) -> rig.Preview:  # noqa: ARG002 - no arguments
        """What would be ended."""
        supervisor = self._relauncher.supervisor
        refused, what = "", "the engine"
        if supervisor.attached_url:
            refused = f"{supervisor.attached_url} was started by somebody else: it can be detached, not stopped"
        elif supervisor.alive and supervisor.record is not None:
            what = supervisor.record.configuration.name
        elif left := await supervisor.leftovers():
            what = f"{len(left)} processes that the dead engine left behind"
        else:
            refused = "no engine runs"
        expected = await self._relauncher.forecast_stop() if not refused else Forecast()
        changes = (rig.Change("engine", "running", "stopped"),) if not refused else ()
        return rig.Preview(
            "stop",
            f"stop {what}",
            path_why="running requests are finished first" if supervisor.alive else "",
            changes=changes,
            expected_s=expected.seconds,
            expected_from=expected.rests_on,
            refused=refused,
        )

    async def run(self, args: Mapping[str, Any], run: Run) -> str:  # noqa: ARG002 - no arguments
        """SIGTERM, a deadline, then its own processes only."""
        supervisor = self._relauncher.supervisor
        run.plan(STEPS if supervisor.alive else STEPS[-2:])
        run.cancellable(possible=False)
        return await supervisor.stop(run)


class Restart:
    """Stop the engine and launch the same again; a dead or stopped one is launched again."""

    def __init__(self, relauncher: Relauncher) -> None:
        self._relauncher = relauncher

    async def preview(self, args: Mapping[str, Any]) -> rig.Preview:  # noqa: ARG002 - no arguments
        """What would be launched again."""
        supervisor = self._relauncher.supervisor
        record = supervisor.record
        if supervisor.attached_url:
            refused = f"{supervisor.attached_url} was started by somebody else: it cannot be restarted from here"
            return rig.Preview("restart", "restart", "restart", refused=refused)
        if record is None:
            refused = "nothing was launched on this rig yet: console run PROFILE"
            return rig.Preview("restart", "restart", "restart", refused=refused)
        title = f"restart {record.configuration.name}"
        try:
            prepared = await self._relauncher.prepare(record.configuration)
        except ConsoleError as error:
            return rig.Preview("restart", title, "restart", refused=error.line)
        expected = await self._relauncher.forecast(record.configuration)
        return rig.Preview(
            "restart",
            title,
            "restart",
            "running requests are finished first",
            (rig.Change("engine", "running" if supervisor.alive else "not running", "started anew"),),
            expected.seconds,
            expected.rests_on or "this profile has not been started on this rig yet",
            prepared.launch.warnings,
        )

    async def run(self, args: Mapping[str, Any], run: Run) -> str:  # noqa: ARG002 - no arguments
        """Stop, launch, wait for the first token."""
        record = self._relauncher.supervisor.record
        if record is None:
            raise ConsoleError("nothing was launched on this rig yet")
        return await self._relauncher.replace(record.configuration, run)


class Attach:
    """Watch a server that somebody else started.

    Args:
        supervisor: the engine's life.
        client: makes HTTP clients.
    """

    def __init__(self, supervisor: Supervisor, client: Callable[[Handle], Any]) -> None:
        self._supervisor = supervisor
        self._client = client

    async def preview(self, args: Mapping[str, Any]) -> rig.Preview:
        """What would be watched.

        Raises:
            ConsoleError: it is no address, or nothing answers there.
        """
        url = normal_url(text_argument(args, "url", "http://HOST:PORT"))
        refused = ""
        if self._supervisor.alive:
            refused = "an engine of this rig runs: stop it first, or attach on a rig of its own (--rig NAME)"
        else:
            async with self._client(Handle(url)) as client:
                await client.ping()
        before = self._supervisor.attached_url or "nothing"
        changes = (rig.Change("watched server", before, url),)
        return rig.Preview("attach", f"attach to {url}", "live", changes=changes, refused=refused)

    async def run(self, args: Mapping[str, Any], run: Run) -> str:
        """Watch it from now on."""
        url = normal_url(text_argument(args, "url", "http://HOST:PORT"))
        run.step("attach", url)
        self._supervisor.attach(url)
        return f"watching {url}"


class Detach:
    """Watch a foreign server no longer."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    async def preview(self, args: Mapping[str, Any]) -> rig.Preview:  # noqa: ARG002 - no arguments
        """What would be let go of."""
        url = self._supervisor.attached_url
        changes = (rig.Change("watched server", url, "nothing"),) if url else ()
        refused = "" if url else "nothing is attached"
        return rig.Preview(
            "detach", f"detach from {url}" if url else "detach", "live", changes=changes, refused=refused
        )

    async def run(self, args: Mapping[str, Any], run: Run) -> str:  # noqa: ARG002 - no arguments
        """Let go; the server is not touched."""
        run.step("detach")
        self._supervisor.detach()
        return "detached; the server runs on"
