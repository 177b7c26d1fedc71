"""The agent's HTTP over its Unix socket; routes as docs/architecture.md lists them."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec
from aiohttp import web

from console import __version__, rig
from console.agent import export, logpage, shelf_routes
from console.agent.chart import Chart
from console.agent.configuration import Configuration
from console.agent.ledger import Entry
from console.agent.operate import BY_CHARS, BusyError, NoReturnError, Operator, RefusedError
from console.agent.publish import Publisher
from console.agent.pulls import Pulls
from console.agent.shelf import Shelf
from console.engine.logtext import sanitize
from console.environment import Matrix
from console.errors import ConsoleError, ExitCode

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
MOST_BODY_BYTES = 64 * 1024
HISTORY_KINDS = frozenset({"operations", "events", "series", "starts"})
RUNS_SENT = 50
"""Runs in an answer when no number was asked for."""
STATUS = {ExitCode.USAGE: 422, ExitCode.NO: 422, ExitCode.UNREACHABLE: 404, ExitCode.FAILED: 500}
"""HTTP status by exit code, for what has none of its own."""


class Rig(Protocol):
    """What the routes need of the daemon."""

    name: str
    simulated: bool
    operator: Operator
    publisher: Publisher
    shelf: Shelf
    pulls: Pulls

    def log_path(self) -> str:
        """Path of the engine's log; empty without one."""

    def secrets(self) -> frozenset[str]:
        """Values to mask."""

    def history(self, kind: str, since: float, until: float) -> list[dict[str, Any]]:
        """Rows of the journal. Blocks."""

    def series(self, since: float, until: float, step: float) -> Chart:
        """Figures over time. Blocks."""

    def acknowledge(self, alarm_id: str, by: str) -> bool:
        """Note who has seen an alarm; False when it does not hold."""

    async def environment(self) -> Matrix:
        """The engine's environment, process by process."""

    def running(self) -> Configuration:
        """What was launched, with what was changed since."""

    def runs(self, kind: str, limit: int) -> list[Entry]:
        """Baselines and calibrations, oldest first. Blocks."""

    def stop(self) -> None:
        """End the agent soon."""


def application(daemon: Rig) -> web.Application:
    """The web application of one rig."""
    routes = Routes(daemon)
    app = web.Application(middlewares=[_only_this_user, _errors], client_max_size=MOST_BODY_BYTES)
    app.router.add_get("/v1/ping", routes.ping)
    app.router.add_get("/v1/snapshot", routes.snapshot)
    app.router.add_get("/v1/stream", routes.stream)
    app.router.add_get("/v1/log", routes.log)
    app.router.add_get("/v1/history", routes.history)
    app.router.add_get("/v1/series", routes.series)
    app.router.add_post("/v1/alarms/ack", routes.acknowledge)
    app.router.add_get("/v1/environment", routes.environment)
    app.router.add_get("/v1/runs", routes.runs)
    app.router.add_get("/v1/running", routes.running)
    app.router.add_post("/v1/preview", routes.preview)
    app.router.add_post("/v1/operations", routes.operate)
    app.router.add_post("/v1/operations/cancel", routes.cancel)
    app.router.add_post("/v1/agent/stop", routes.stop)
    app.router.add_get("/metrics", routes.metrics)
    shelf_routes.add(app, daemon.shelf, daemon.pulls)
    return app


class Routes:
    """One method a route."""

    def __init__(self, daemon: Rig) -> None:
        self._rig = daemon

    async def ping(self, _request: web.Request) -> web.Response:
        """Who answers."""
        return _json(
            {
                "rig": self._rig.name,
                "pid": os.getpid(),
                "version": __version__,
                "schema": rig.SCHEMA,
                "simulated": self._rig.simulated,
            }
        )

    async def snapshot(self, _request: web.Request) -> web.Response:
        """The newest one."""
        return web.Response(body=self._rig.publisher.fresh(), content_type="application/json")

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """One a line; who reads slowly misses some."""
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson", "Cache-Control": "no-store"})
        await response.prepare(request)
        async for line in self._rig.publisher.lines():
            try:
                await response.write(line)
            except (ConnectionError, RuntimeError):
                break
        return response

    async def log(self, request: web.Request) -> web.Response:
        """A page of the engine's log."""
        path = self._rig.log_path()
        if not path:
            raise ConsoleError("there is no engine log yet", todo="console run PROFILE", code=ExitCode.UNREACHABLE)
        from pathlib import Path

        found = await asyncio.to_thread(
            logpage.page,
            Path(path),
            before=_whole(request, "before"),
            after=_whole(request, "after"),
            limit=_whole(request, "limit") or 200,
            secrets=self._rig.secrets(),
        )
        return _json(found)

    async def history(self, request: web.Request) -> web.Response:
        """Rows of the journal."""
        kind = request.query.get("kind", "operations")
        if kind not in HISTORY_KINDS:
            what = sanitize(kind, limit_chars=40)
            raise ConsoleError(
                f"no history of {what!r}", todo=f"one of {', '.join(sorted(HISTORY_KINDS))}", code=ExitCode.USAGE
            )
        since, until = _seconds(request, "since", 0.0), _seconds(request, "until", 1e11)
        return _json(await asyncio.to_thread(self._rig.history, kind, since, until))

    async def environment(self, _request: web.Request) -> web.Response:
        """The engine's environment: asked for, launcher, workers."""
        return _json(await self._rig.environment())

    async def running(self, _request: web.Request) -> web.Response:
        """The running profile and the live overrides."""
        return _json(self._rig.running())

    async def runs(self, request: web.Request) -> web.Response:
        """The ledger's newest runs, oldest of them first."""
        kind = request.query.get("kind", "")
        return _json(await asyncio.to_thread(self._rig.runs, kind, _whole(request, "limit") or RUNS_SENT))

    async def series(self, request: web.Request) -> web.Response:
        """Figures over time, averaged into steps."""
        since, until, step = (_seconds(request, name, 0.0) for name in ("since", "until", "step"))
        return _json(await asyncio.to_thread(self._rig.series, since, until, step))

    async def acknowledge(self, request: web.Request) -> web.Response:
        """Somebody has seen an alarm."""
        body = await _body(request)
        alarm_id, by = body.get("id"), body.get("by", "")
        if not isinstance(alarm_id, str) or not isinstance(by, str):
            raise ConsoleError(
                "this is no alarm",
                todo='send {"id": "loses", "by": "ann"}; the snapshot has the ids',
                code=ExitCode.USAGE,
            )
        if not self._rig.acknowledge(alarm_id, sanitize(by, limit_chars=BY_CHARS) or "somebody"):
            what = f"no alarm {sanitize(alarm_id, limit_chars=80)!r} holds"
            raise ConsoleError(what, why="it is over, or never was", code=ExitCode.UNREACHABLE)
        return _json({"acknowledged": alarm_id})

    async def preview(self, request: web.Request) -> web.Response:
        """What an operation would do."""
        kind, args, _ = await _order(request)
        return _json(await self._rig.operator.preview(kind, args))

    async def operate(self, request: web.Request) -> web.Response:
        """Begin an operation."""
        kind, args, by = await _order(request)
        return _json(await self._rig.operator.start(kind, args, by), status=202)

    async def cancel(self, request: web.Request) -> web.Response:
        """Take the running operation back."""
        body = await _body(request, empty=True)
        return _json(self._rig.operator.cancel(str(body.get("by", "")) or "somebody"))

    async def stop(self, _request: web.Request) -> web.Response:
        """The agent ends, the engine lives."""
        self._rig.stop()
        return _json({"stopping": True, "pid": os.getpid()})

    async def metrics(self, _request: web.Request) -> web.Response:
        """The console's own figures for Prometheus."""
        text = export.render(self._rig.publisher.newest())
        return web.Response(body=text.encode(), headers={"Content-Type": export.CONTENT_TYPE})


# ---------------------------------------------------------------------------------------------- requests and answers


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")


def _error(line: str, code: ExitCode, status: int) -> web.Response:
    return _json({"error": line, "code": int(code)}, status)


async def _body(request: web.Request, *, empty: bool = False) -> Mapping[str, Any]:
    raw = await request.read()
    if not raw and empty:
        return {}
    try:
        body = msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        raise ConsoleError("the request's body is no JSON", why=str(error), code=ExitCode.USAGE) from error
    if not isinstance(body, dict):
        raise ConsoleError("the request's body is no JSON object", code=ExitCode.USAGE)
    return body


async def _order(request: web.Request) -> tuple[str, Mapping[str, Any], str]:
    """Kind, arguments, and who asks."""
    body = await _body(request)
    kind, args, by = body.get("kind"), body.get("args", {}), body.get("by", "")
    if not isinstance(kind, str) or not isinstance(args, dict) or not isinstance(by, str):
        raise ConsoleError(
            "this is no operation",
            todo='send {"kind": "depth", "args": {"depth": 3}, "by": "ann"}',
            code=ExitCode.USAGE,
        )
    return kind, args, by or "somebody"


def _whole(request: web.Request, name: str) -> int | None:
    text = request.query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ConsoleError(f"{name} is no whole number", code=ExitCode.USAGE)
    return int(text)


def _seconds(request: web.Request, name: str, otherwise: float) -> float:
    text = request.query.get(name)
    try:
        value = otherwise if text is None else float(text)
    except ValueError:
        value = float("nan")
    if not -1e12 < value < 1e12:
        raise ConsoleError(f"{name} is no time in Unix seconds", code=ExitCode.USAGE)
    return value


# ---------------------------------------------------------------------------------------------- for every request


def peer_uid(connection: socket.socket) -> int | None:
    """User id at the other end of a Unix socket, from the kernel; ``None`` where it does not tell."""
    try:
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    except OSError:
        return None
    _, uid, _ = struct.unpack("3i", raw)
    return int(uid)


@web.middleware
async def _only_this_user(request: web.Request, handler: Handler) -> web.StreamResponse:
    connection = request.transport.get_extra_info("socket") if request.transport is not None else None
    uid = peer_uid(connection) if connection is not None else None
    if uid not in {os.geteuid(), 0}:
        return _error("this rig belongs to another user", ExitCode.UNREACHABLE, 403)
    return await handler(request)


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every error is one line and an exit code."""
    try:
        return await handler(request)
    except (BusyError, NoReturnError) as error:
        return _error(error.line, error.code, 409)
    except RefusedError as error:
        return _error(error.line, error.code, 422)
    except ConsoleError as error:
        return _error(error.line, error.code, STATUS.get(error.code, 500))
    except web.HTTPException as error:
        if error.status < 400:
            raise
        what = f"{request.method} {sanitize(request.path, limit_chars=200)}: {error.reason}"
        return _error(what, ExitCode.USAGE, error.status)
    except (ConnectionError, asyncio.CancelledError):
        raise
    except Exception as error:
        log.exception("%s failed", request.path)
        return _error(f"the agent's own fault: {type(error).__name__}: {error}", ExitCode.FAILED, 500)
