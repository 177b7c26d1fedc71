"""Routes of the drafters and of the downloads."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from aiohttp import web

from console.agent.pulls import Pulls
from console.agent.shelf import Shelf
from console.errors import ConsoleError, ExitCode


def add(app: web.Application, shelf: Shelf, pulls: Pulls) -> None:
    """Put them into the agent's application; its middleware turns errors into answers."""

    async def drafters(request: web.Request) -> web.Response:
        """The list; with ``name``, one of them in full."""
        if name := request.query.get("name", ""):
            return _json(await asyncio.to_thread(shelf.check, name))
        return _json(await asyncio.to_thread(shelf.drafters))

    async def listing(_request: web.Request) -> web.Response:
        """Every pull, oldest first."""
        return _json(pulls.all())

    async def begin(request: web.Request) -> web.Response:
        """Start one."""
        body = await _body(request)
        repository, everything, by = body.get("repository"), body.get("everything", False), body.get("by", "")
        if not isinstance(repository, str) or not isinstance(everything, bool) or not isinstance(by, str):
            raise ConsoleError("this is no pull", todo='send {"repository": "org/name"}', code=ExitCode.USAGE)
        return _json(pulls.start(repository, everything=everything, by=by or "somebody"), 202)

    async def cancel(request: web.Request) -> web.Response:
        """Stop one."""
        return _json(pulls.cancel(str((await _body(request)).get("id", ""))))

    app.router.add_get("/v1/drafters", drafters)
    app.router.add_get("/v1/pulls", listing)
    app.router.add_post("/v1/pulls", begin)
    app.router.add_post("/v1/pulls/cancel", cancel)


async def _body(request: web.Request) -> dict[str, Any]:
    try:
        body = msgspec.json.decode(await request.read())
    except msgspec.DecodeError as error:
        raise ConsoleError("the request's body is no JSON", why=str(error), code=ExitCode.USAGE) from error
    if not isinstance(body, dict):
        raise ConsoleError("the request's body is no JSON object", code=ExitCode.USAGE)
    return body


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")
