"""The operations that measure: baseline and calibration, on the running engine, with the depth put back afterwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec

from console import calibration, rig
from console.agent import ledger
from console.agent.calibrate import Calibrator, Stages, Wish
from console.agent.configuration import Configuration
from console.agent.live import LiveControl
from console.agent.operate import Run
from console.agent.relaunch import Relauncher
from console.engine import loads
from console.engine.prompts import SHIPPED, PromptSet, load_prompts
from console.errors import ConsoleError, ExitCode
from console.paths import RigPaths
from profiles.schema import BaselineSection, Profile

MOST_CONCURRENCY = 256
MOST_TOKENS = 8192
MOST_REPETITIONS = 50
FINGERPRINT_S = 10.0
PREPARE, MEASURE, RESTORE, KEEP = "look at the load", "measure", "put the depth back", "keep the result"


class Gauge(Protocol):
    """What a measurement wants to know of the rig; see :class:`console.agent.measure.Measure`."""

    @property
    def fingerprint(self) -> str:
        """Of the rig as it runs now."""

    def stage_totals(self) -> Stages:
        """The probe's stage counters, newest."""

    def profile_changed(self, profile: Profile) -> None:
        """The running engine's profile has another baseline from now on."""


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of both operations."""

    depths: tuple[int, ...] = ()
    """Empty: every prebuilt depth."""
    concurrency: tuple[int, ...] = (1,)
    repetitions: int = 3
    tokens: int = 256
    temperature: float = 0.0
    prompts: str = SHIPPED
    busy: int = 0
    """Requests of others that may be running."""
    save: bool = True
    """Put the result into the profile."""


def request_of(args: Mapping[str, Any]) -> Request:
    """Check the arguments.

    Raises:
        ConsoleError: one is unknown or out of range.
    """
    try:
        wanted = msgspec.convert(dict(args), Request)
    except msgspec.ValidationError as error:
        raise ConsoleError("these are no arguments of a measurement", why=str(error), code=ExitCode.USAGE) from error
    limits = (
        ("concurrency", max(wanted.concurrency, default=0), 1, MOST_CONCURRENCY),
        ("concurrency", min(wanted.concurrency, default=0), 1, MOST_CONCURRENCY),
        ("repetitions", wanted.repetitions, 1, MOST_REPETITIONS),
        ("tokens", wanted.tokens, 2, MOST_TOKENS),
        ("busy", wanted.busy, 0, 1_000_000),
        ("temperature", wanted.temperature, 0, 10),
        ("depths", min(wanted.depths, default=0), 0, 64),
        ("depths", max(wanted.depths, default=0), 0, 64),
    )
    for name, value, low, high in limits:
        if not low <= value <= high:
            raise ConsoleError(f"{name} {value} is out of range", why=f"{low} to {high}", code=ExitCode.USAGE)
    return wanted


class _Measurement:
    """What both share.

    Args:
        relauncher: the engine, and the way through a restart.
        live: changes of depth without one.
        gauge: fingerprint and the probe's counters.
        paths: where the ledger is.
        save: writes a profile.
    """

    kind = ""

    def __init__(
        self,
        relauncher: Relauncher,
        live: LiveControl,
        gauge: Gauge,
        paths: RigPaths,
        save: Callable[[Profile, Profile], None] | None = None,
    ) -> None:
        self._relauncher = relauncher
        self._supervisor = relauncher.supervisor
        self._live = live
        self._gauge = gauge
        self._paths = paths
        self._save = save or _save_profile

    def _running(self) -> Configuration:
        record = self._supervisor.record
        if not self._supervisor.ready or record is None or self._supervisor.attached_url:
            raise ConsoleError(
                "no engine of this rig is ready", todo="launch one: console run PROFILE", code=ExitCode.UNREACHABLE
            )
        return record.configuration

    def _why_not_live(self, depths: tuple[int, ...]) -> str:
        status = self._live.capabilities()
        if not status.depth_live:
            return status.depth_why or status.why
        missing = [depth for depth in depths if depth not in self._live.candidate_steps]
        if missing:
            prebuilt = ", ".join(map(str, self._live.candidate_steps))
            return f"depth {', '.join(map(str, missing))} was not prebuilt (prebuilt: {prebuilt})"
        return ""

    def _check_live(self, depths: tuple[int, ...]) -> None:
        if why := self._why_not_live(depths) or ("" if depths else "no depth is prebuilt"):
            todo = "set speculation.candidate_steps in the profile and restart"
            raise ConsoleError("depth cannot be changed live here", why=why, todo=todo)

    async def _check_load(self, wanted: Request) -> None:
        """A serving box is not disturbed unless the operator said so."""
        async with self._supervisor.client() as client:
            running = loads.parse(await client.loads()).running
        if running is not None and running > wanted.busy:
            raise ConsoleError(
                f"{running} requests of others are running",
                why="a measurement would slow them and they would falsify it",
                todo=f"wait, or allow them with --busy {running}",
            )

    async def _measure(
        self, wish: Wish, prompts: PromptSet, set_depth: Callable[[int], Awaitable[None]], run: Run
    ) -> calibration.Calibration:
        running = self._running()
        spec = running.effective().speculation
        begun = time.monotonic()

        def progress(done: int, count: int, text: str) -> None:
            left = (time.monotonic() - begun) / done * (count - done) if done else None
            eta = "" if left is None else f", {left:.0f} s left"
            run.detail(f"{done} of {count}{eta}{': ' + text if text else ''}")

        async with self._supervisor.client() as client:
            calibrator = Calibrator(client, set_depth, stages=self._gauge.stage_totals, progress=progress)
            cells = await calibrator.run(wish, prompts)
        return calibration.Calibration(
            at_s=time.time(), fingerprint=self._gauge.fingerprint, drafter=spec.drafter or running.profile.speculation.drafter,
            prompts=prompts.name, sampling=wish.sampling, cells=cells, simulated=running.profile.engine.simulated,
        )  # fmt: skip

    async def _fingerprint(self) -> str:
        """Of the rig; an engine that has just started tells its arguments a moment later."""
        deadline = time.monotonic() + FINGERPRINT_S
        while not (found := self._gauge.fingerprint) and time.monotonic() < deadline:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.1)
        return found

    async def _live_measure(self, wish: Wish, prompts: PromptSet, run: Run) -> calibration.Calibration:
        """Measure at live depths; whatever happens, the depth that was is in force again."""
        _, pinned = self._live.depth()
        run.step(MEASURE)
        run.cancellable(possible=True)
        try:
            return await self._measure(wish, prompts, self._set_live, run)
        finally:
            run.step(RESTORE)
            await asyncio.shield(self._live.set_depth(pinned))

    async def _set_live(self, depth: int) -> None:
        if self._live.depth()[1] != depth:
            await self._live.set_depth(depth)

    async def _keep(self, result: calibration.Calibration, running: Configuration, wanted: Request, run: Run) -> str:
        """Into the ledger and, when asked, the profile; the profile's trouble does not lose the ledger's entry."""
        run.step(KEEP)
        entry = await asyncio.to_thread(
            ledger.write, self._paths, kind=self.kind, by=run.by, profile=running.profile.name, result=result
        )
        if not wanted.save:
            return f"run {entry.id}"
        changed = self._with_result(running.profile, result)
        note = f"run {entry.id}"
        try:
            await asyncio.to_thread(self._save, changed, running.profile)
        except ConsoleError as error:
            note += f"; the profile was not changed: {error.line}"
        current = self._running()
        self._supervisor.remember(msgspec.structs.replace(current, profile=changed))
        self._gauge.profile_changed(changed)
        return note

    def _with_result(self, profile: Profile, result: calibration.Calibration) -> Profile:
        plain = next((cell for cell in result.cells if cell.depth == 0), None)
        measured = dict(profile.measured) | {self.kind: _summary(result)}
        changed = msgspec.structs.replace(profile, measured=measured)
        if plain is None:
            return changed
        section = BaselineSection(
            tok_s=round(plain.stream_tok_s.median, 2),
            measured=datetime.fromtimestamp(result.at_s, UTC).isoformat(timespec="seconds"),
            fingerprint=result.fingerprint,
            concurrency=plain.concurrency,
            note=f"{result.prompts}, {result.sampling}" + (", SIMULATED" if result.simulated else ""),
        )
        targets = msgspec.structs.replace(changed.targets, baseline=section)
        return msgspec.structs.replace(changed, targets=targets)


class Baseline(_Measurement):
    """Speed per stream without speculation: live through depth 0 where that is prebuilt, else by a restart that says so."""

    kind = "baseline"

    async def preview(self, args: Mapping[str, Any]) -> rig.Preview:
        """Live or restart, and what will be replaced."""
        wanted = request_of(args)
        title = f"measure the baseline at {wanted.concurrency[0]} running"
        try:
            running = self._running()
            await self._check_load(wanted)
        except ConsoleError as error:
            return rig.Preview(self.kind, title, refused=error.line)
        old = running.profile.targets.baseline
        before = f"{old.tok_s:g} tok/s of {old.measured or 'an unknown date'}" if old.tok_s else "none"
        changes = (rig.Change("baseline", before, "measured now"),)
        why = self._why_not_live((0,)) if running.effective().speculation.algorithm else ""
        if not why:
            return rig.Preview(self.kind, title, "live", changes=changes)
        return rig.Preview(self.kind, title, "restart", f"two restarts: {why}", changes)

    async def run(self, args: Mapping[str, Any], run: Run) -> str:
        """Measure it, put everything back, keep it in the profile."""
        wanted = request_of(args)
        running = self._running()
        prompts = load_prompts(wanted.prompts)
        wish = Wish((0,), wanted.concurrency[:1], wanted.repetitions, wanted.tokens, wanted.temperature)
        run.step(PREPARE)
        await self._check_load(wanted)
        plain_already = not running.effective().speculation.algorithm
        if plain_already:
            run.step(MEASURE)
            run.cancellable(possible=True)
            result = await self._measure(wish, prompts, _nothing, run)
        elif not self._why_not_live((0,)):
            result = await self._live_measure(wish, prompts, run)
        else:
            result = await self._by_restart(wish, prompts, running, run)
        note = await self._keep(result, running, wanted, run)
        speed = result.cells[0].stream_tok_s
        span = f"{speed.low:.1f} to {speed.high:.1f}"
        return f"baseline {speed.median:.1f} tok/s ({span}) at {wish.concurrencies[0]} running; {note}"

    async def _by_restart(
        self, wish: Wish, prompts: PromptSet, running: Configuration, run: Run
    ) -> calibration.Calibration:
        plain = msgspec.structs.replace(running, depth=0)
        await self._relauncher.replace(plain, run)
        try:
            run.step(MEASURE)
            return await self._measure(wish, prompts, _nothing, run)
        finally:
            await asyncio.shield(self._relauncher.replace(running, run))


class Calibrate(_Measurement):
    """tok/s, cycle split and acceptance for each depth and concurrency, and what follows from them."""

    kind = "calibrate"

    async def preview(self, args: Mapping[str, Any]) -> rig.Preview:
        """Which cells, and why it cannot be done."""
        wanted = request_of(args)
        depths = wanted.depths or self._live.candidate_steps
        title = f"calibrate depths {', '.join(map(str, depths)) or '-'} at {', '.join(map(str, wanted.concurrency))} running"
        try:
            self._running()
            self._check_live(depths)
            await self._check_load(wanted)
        except ConsoleError as error:
            return rig.Preview(self.kind, title, refused=error.line)
        count = len(depths) * len(wanted.concurrency) * wanted.repetitions
        changes = (rig.Change("cells", "", f"{count} measurements, {wanted.tokens} tokens a request"),)
        return rig.Preview(self.kind, title, "live", changes=changes)

    async def run(self, args: Mapping[str, Any], run: Run) -> str:
        """Measure, put the depth back, keep the cost table."""
        wanted = request_of(args)
        running = self._running()
        depths = wanted.depths or self._live.candidate_steps
        prompts = load_prompts(wanted.prompts)
        run.plan([PREPARE, MEASURE, RESTORE, KEEP])
        run.step(PREPARE)
        self._check_live(depths)
        await self._check_load(wanted)
        wish = Wish(
            depths, tuple(sorted(set(wanted.concurrency))), wanted.repetitions, wanted.tokens, wanted.temperature
        )
        result = await self._live_measure(wish, prompts, run)
        note = await self._keep(result, running, wanted, run)
        best = "; ".join(_said(choice) for choice in calibration.choices(result))
        return f"{best}; {note}"


def _said(choice: calibration.Choice) -> str:
    also = f" (not distinguishable from {', '.join(map(str, choice.also))})" if choice.also else ""
    return f"at {choice.concurrency} running depth {choice.depth} is best, {choice.tok_s:.1f} tok/s{also}"


def _summary(result: calibration.Calibration) -> dict[str, object]:
    """What a profile keeps of a run: enough to rank by, small enough to read."""
    return {
        "at": datetime.fromtimestamp(result.at_s, UTC).isoformat(timespec="seconds"),
        "fingerprint": result.fingerprint,
        "drafter": result.drafter,
        "prompts": result.prompts,
        "sampling": result.sampling,
        "simulated": result.simulated,
        "cells": [
            {
                "depth": cell.depth,
                "concurrency": cell.concurrency,
                "tok_s": round(cell.total_tok_s.median, 2),
                "stream_tok_s": round(cell.stream_tok_s.median, 2),
                **({"tokens": cell.tokens, "requests": cell.requests - cell.failed} if cell.tokens else {}),
                **({"accept_len": round(cell.accept_len, 3)} if cell.accept_len is not None else {}),
                **({"cycle_ms": round(cell.cycle_ms, 3)} if cell.cycle_ms is not None else {}),
            }
            for cell in result.cells
        ],
    }


async def _nothing(_depth: int) -> None:
    """The engine has no speculation: there is no depth to set."""


def _save_profile(changed: Profile, before: Profile) -> None:
    from profiles import store

    store.save(changed, based_on=before)
