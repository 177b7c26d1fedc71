"""SGLang's routes on the simulated engine, its authorization levels included."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from aiohttp import web

from console.simulate import answers, log, metrics_text
from console.simulate.faults import FaultError
from console.simulate.traffic import Request

if TYPE_CHECKING:
    from console.simulate.engine import Engine
    from console.simulate.feed import Feed
    from console.simulate.processes import Workers

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
OPEN = ("/ping", "/health", "/health_generate", "/ready", "/metrics", "/sim/fault")
"""Routes that never ask for a key."""
ADMIN = {
    "/flush_cache",
    "/pause_generation",
    "/continue_generation",
    "/set_internal_state",
    "/weights_checker",
    "/update_weights_from_disk",
    "/abort_request",
}
HUGE_BYTES = 64 * 1024 * 1024


class Routes:
    """The HTTP face of one engine."""

    def __init__(self, engine: Engine, feed: Feed | None, workers: Workers, startup_s: dict[str, float]) -> None:
        self._engine = engine
        self._feed = feed
        self._workers = workers
        self._startup_s = startup_s
        self._started_s = time.time()
        self._numbers = itertools.count(1)
        self.up = False
        self.draining = False

    def app(self) -> web.Application:
        """The application to serve."""
        app = web.Application(middlewares=[self._guard], client_max_size=16 * 1024 * 1024)
        get, post = app.router.add_get, app.router.add_post
        get("/ping", self._ok)
        get("/health", self._health)
        get("/health_generate", self._health)
        get("/ready", self._ready)
        for path in ("/model_info", "/get_model_info"):
            get(path, self._json(lambda: answers.model_info(self._engine)))
        for path in ("/server_info", "/get_server_info"):
            get(path, self._json(lambda: answers.server_info(self._engine, self._startup_s)))
        get("/v1/models", self._json(lambda: answers.models(self._engine, self._started_s)))
        get("/v1/loads", self._loads)
        get("/metrics", self._metrics)
        post("/generate", self._generate)
        post("/v1/chat/completions", self._chat)
        post("/pause_generation", self._pause)
        post("/continue_generation", self._continue)
        app.router.add_route("*", "/flush_cache", self._flush)
        app.router.add_route("*", "/set_internal_state", self._set_internal_state)
        app.router.add_route("*", "/weights_checker", self._weights)
        post("/update_weights_from_disk", self._update_weights)
        post("/abort_request", self._abort)
        post("/sim/fault", self._fault)
        return app

    # ------------------------------------------------------------------------------------------ middleware

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if "hang" in self._engine.faults and request.path != "/sim/fault":
            await asyncio.Event().wait()
        if not self._allowed(request):
            return web.json_response({"error": "Unauthorized"}, status=401)
        try:
            return await handler(request)
        except web.HTTPNotFound:
            return web.json_response({"detail": "Not Found"}, status=404)

    def _allowed(self, request: web.Request) -> bool:
        """Normal routes want the API key; administrative ones the admin key, else the API key, else nothing."""
        options = self._engine.options
        if request.path in OPEN:
            return True
        wanted = (options.admin_key or options.api_key) if request.path in ADMIN else options.api_key
        return not wanted or request.headers.get("Authorization") == f"Bearer {wanted}"

    def _json(self, body: Callable[[], dict[str, Any]]) -> Handler:
        async def handler(_request: web.Request) -> web.StreamResponse:
            self._engine.advance()
            return web.json_response(body())

        return handler

    # ---------------------------------------------------------------------------------------------- health

    async def _ok(self, _request: web.Request) -> web.StreamResponse:
        return web.Response(text="")

    async def _health(self, _request: web.Request) -> web.StreamResponse:
        """A second at least, as SGLang waits for a message of the backend; 503 while starting, draining or paused."""
        if not self.up or self.draining:
            return web.Response(status=503)
        await asyncio.sleep(1.0)
        if self._engine.paused:
            await asyncio.sleep(19.0)
            return web.Response(status=503)
        return web.Response(text="")

    async def _ready(self, _request: web.Request) -> web.StreamResponse:
        good = self.up and not self.draining and not self._engine.paused
        return web.Response(status=200 if good else 503)

    # ------------------------------------------------------------------------------------------------ read

    async def _loads(self, _request: web.Request) -> web.StreamResponse:
        self._engine.advance()
        if "loads_garbage" in self._engine.faults:
            return web.Response(text='{"loads": [{"num_running_reqs": "many", ', content_type="application/json")
        return web.json_response(answers.loads(self._engine))

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        if not self._engine.options.metrics:
            raise web.HTTPNotFound
        faults = self._engine.faults
        if "metrics_garbage" in faults:
            return web.Response(body=bytes(range(256)) * 64, content_type="text/plain")
        if "metrics_huge" in faults or "metrics_endless" in faults:
            return await self._flood(request, None if "metrics_endless" in faults else HUGE_BYTES)
        self._engine.advance()
        text = metrics_text.exposition(self._engine, self._startup_s)
        return web.Response(body=text.encode(), headers={"Content-Type": metrics_text.CONTENT_TYPE})

    async def _flood(self, request: web.Request, limit: int | None) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": metrics_text.CONTENT_TYPE})
        await response.prepare(request)
        chunk = b'sglang:num_running_reqs{tp_rank="0"} 1.0\n' * 1600
        sent = 0
        while limit is None or sent < limit:
            await response.write(chunk)
            sent += len(chunk)
            await asyncio.sleep(0)
        return response

    # -------------------------------------------------------------------------------------------- generate

    async def _run(self, prompt_tokens: int, max_tokens: int) -> Request:
        request = Request(
            rid=f"req-{next(self._numbers):08x}",
            prompt_tokens=max(1, prompt_tokens),
            max_tokens=max(1, max_tokens),
            arrived_s=self._engine.clock(),
        )
        self._engine.submit(request)
        await request.done.wait()
        return request

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        body = await _body(request)
        params = body.get("sampling_params") or {}
        text = body.get("text")
        ids = body.get("input_ids") or []
        tokens = len(text.split()) if isinstance(text, str) else len(ids)
        done = await self._run(tokens, int(params.get("max_new_tokens", 128)))
        answer = {
            "text": answers.text_of(done),
            "output_ids": list(range(100, 100 + done.generated)),
            "meta_info": answers.meta_info(done, self._engine.clock(), speculative=self._engine.options.speculative),
        }
        if body.get("stream"):
            return await _stream(request, answer)
        return web.json_response(answer)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await _body(request)
        messages = body.get("messages") or []
        tokens = sum(len(str(message.get("content", "")).split()) + 4 for message in messages)
        done = await self._run(tokens, int(body.get("max_tokens") or body.get("max_completion_tokens") or 128))
        message = {"role": "assistant", "content": answers.text_of(done), "reasoning_content": None}
        answer = {
            "id": done.rid,
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self._engine.options.served_name,
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "length"}],
            "usage": {
                "prompt_tokens": done.prompt_tokens,
                "completion_tokens": done.generated,
                "total_tokens": done.tokens,
            },
        }
        return web.json_response(answer)

    # ---------------------------------------------------------------------------------------------- control

    async def _pause(self, request: web.Request) -> web.StreamResponse:
        self._engine.advance()
        mode = (await _body(request)).get("mode", "abort")
        if mode == "abort":
            self._engine.abort_all()
        elif mode == "retract":
            self._engine.retract_all()
        self._engine.paused = True
        return web.json_response({"message": "Generation paused successfully.", "status": "ok"})

    async def _continue(self, _request: web.Request) -> web.StreamResponse:
        self._engine.paused = False
        return web.json_response({"message": "Generation continued successfully.", "status": "ok"})

    async def _flush(self, _request: web.Request) -> web.StreamResponse:
        engine = self._engine
        engine.advance()
        if engine.running or (engine.queue and not engine.paused):
            engine.log("Cache not flushed because there are pending requests")
            return web.Response(status=400, text="Flush cache failed.\n")
        engine.log("Cache flushed successfully!")
        return web.Response(text="Cache flushed.\nPlease check backend logs for more details.\n")

    async def _set_internal_state(self, request: web.Request) -> web.StreamResponse:
        values = (await _body(request)).get("server_args") or {}
        self._engine.advance()
        number = values.get("spec_console_cmd")
        if self._feed and isinstance(number, int):
            return web.json_response([self._feed.command(number)])
        known = {"speculative_accept_threshold_single", "speculative_accept_threshold_acc", "pp_max_micro_batch_size"}
        for key in values:
            if key not in known:
                self._engine.log(f"Updating {key} is not supported.")
        return web.json_response([bool(values) and values.keys() <= known])

    async def _weights(self, request: web.Request) -> web.StreamResponse:
        body = await _body(request)
        if body.get("action", "checksum") != "checksum":
            return web.json_response({"success": False, "message": "only checksum is simulated"}, status=400)
        return web.json_response(answers.weights(self._engine))

    async def _update_weights(self, _request: web.Request) -> web.StreamResponse:
        message = "this route loads the target too; the simulated engine refuses it"
        return web.json_response({"success": False, "message": message, "num_paused_requests": 0}, status=400)

    async def _abort(self, _request: web.Request) -> web.StreamResponse:
        self._engine.abort_all()
        return web.Response(text="")

    # ----------------------------------------------------------------------------------------------- faults

    async def _fault(self, request: web.Request) -> web.StreamResponse:
        """``{"kind": ..., "argument": N}`` puts a fault in force, with ``"clear": true`` it ends."""
        body = await _body(request)
        kind = str(body.get("kind", ""))
        faults = self._engine.faults
        try:
            if body.get("clear"):
                faults.clear(kind)
            else:
                faults.set(kind, float(body.get("argument", 0)))
        except (FaultError, TypeError, ValueError) as error:
            return web.json_response({"error": str(error)}, status=400)
        self._strike()
        return web.json_response({"active": faults.active})

    def _strike(self) -> None:
        """Faults that happen once, now."""
        faults = self._engine.faults
        if "scheduler_crash" in faults:
            rank = int(faults.argument("scheduler_crash", 0)) % len(self._workers.schedulers)
            os.kill(self._workers.schedulers[rank], signal.SIGKILL)
            faults.clear("scheduler_crash")
        if "log_truncate" in faults:
            log.truncate()
            faults.clear("log_truncate")


async def _body(request: web.Request) -> dict[str, Any]:
    """The request's JSON object; an empty one when there is none or it is no object."""
    try:
        body = await request.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


async def _stream(request: web.Request, answer: dict[str, Any]) -> web.StreamResponse:
    """The whole answer as one event, then SGLang's end mark."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    await response.write(b"data: " + json.dumps(answer).encode() + b"\n\ndata: [DONE]\n\n")
    return response
