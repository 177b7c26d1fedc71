"""SGLang's HTTP, as much as the console uses. A failure is one line; no answer hangs the caller or fills its memory."""

from __future__ import annotations

import asyncio
import json
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from console.engine.logtext import sanitize
from console.errors import ConsoleError, ExitCode

if TYPE_CHECKING:
    import aiohttp

JSON_LIMIT_BYTES = 32 * 1024 * 1024
METRICS_LIMIT_BYTES = 64 * 1024 * 1024
QUICK_S = 3.0
"""Routes that never leave the HTTP process."""
NORMAL_S = 10.0
"""Routes that take a round trip through the scheduler."""
HEALTH_S = 25.0
"""``/health`` generates a token and answers after 1 to 20 s."""
KEEPALIVE_S = 4.0
"""uvicorn closes an idle connection after 5 s; a request sent into that moment would be lost."""


class EngineUnreachable(ConsoleError):  # noqa: N818 - the name says what happened
    """No answer: nothing listens, the connection broke, or time ran out."""

    def __init__(self, what: str, *, why: str = "", todo: str = "") -> None:
        super().__init__(what, why=why, todo=todo, code=ExitCode.UNREACHABLE)


class EngineRefused(ConsoleError):  # noqa: N818 - the name says what happened
    """An answer that is no success.

    Attributes:
        status: HTTP status; 0 when the answer could not be understood.
    """

    def __init__(self, what: str, *, why: str = "", todo: str = "", status: int = 0) -> None:
        super().__init__(what, why=why, todo=todo, code=ExitCode.FAILED)
        self.status = status


class EngineClient:
    """A client of one engine.

    Args:
        url: address of the server, e.g. ``http://127.0.0.1:30000``.
        api_key: key of the normal routes.
        admin_key: key of the routes that change something; the api key when empty.

    Raises:
        ConsoleError: the address is none.
    """

    def __init__(self, url: str, *, api_key: str = "", admin_key: str = "") -> None:
        self.url = normal_url(url)
        self._api_key = api_key
        self._admin_key = admin_key or api_key
        self._session: aiohttp.ClientSession | None = None
        self._has_ready = True

    async def __aenter__(self) -> Self:
        import aiohttp

        # trust_env stays off: a proxy has no business between the console and a server on this box.
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=NORMAL_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            connector=aiohttp.TCPConnector(keepalive_timeout=KEEPALIVE_S),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    # ------------------------------------------------------------------------------------------ is it there

    async def ping(self) -> None:
        """The HTTP server answers, whatever the schedulers do. Without ``/ping`` an answer of ``/model_info`` will do."""
        try:
            await self._call("GET", "/ping", deadline_s=QUICK_S, want="nothing")
        except EngineRefused as refused:
            if refused.status not in {404, 405}:
                raise
            await self.model_info()

    async def ready(self) -> bool:
        """Up, not shutting down, not paused. Without ``/ready`` (before 0.5.20): ``/model_info`` or ``/v1/models`` answers."""
        if self._has_ready:
            try:
                await self._call("GET", "/ready", deadline_s=QUICK_S, want="nothing")
            except EngineRefused as refused:
                if refused.status == 503:
                    return False
                if refused.status not in {404, 405}:
                    raise
                self._has_ready = False
            else:
                return True
        try:
            await self.model_info()
        except EngineRefused as refused:
            if refused.status not in {404, 405}:
                return False
            await self._call("GET", "/v1/models", deadline_s=QUICK_S)
        return True

    async def health(self) -> bool:
        """``/health``: generates a token, so it takes a second at least. Never ask it while generation is paused."""
        try:
            await self._call("GET", "/health", deadline_s=HEALTH_S, want="nothing")
        except EngineRefused as refused:
            if refused.status == 503:
                return False
            raise
        return True

    # ------------------------------------------------------------------------------------------ what it is and does

    async def model_info(self) -> dict[str, Any]:
        """``/model_info``, or its older name."""
        return await self._object("/model_info", "/get_model_info", deadline_s=QUICK_S)

    async def server_info(self) -> dict[str, Any]:
        """``/server_info``, or its older name: a round trip through the scheduler."""
        return await self._object("/server_info", "/get_server_info", deadline_s=NORMAL_S)

    async def loads(self) -> dict[str, Any]:
        """``/v1/loads`` with all its parts: cheap, from shared memory."""
        return await self._object("/v1/loads?include=all", deadline_s=QUICK_S)

    async def metrics_text(self) -> str:
        """``/metrics``: blocks the server's event loop while it is made, so every 5 s at most."""
        answer = await self._call("GET", "/metrics", deadline_s=NORMAL_S, want="text", limit_bytes=METRICS_LIMIT_BYTES)
        return str(answer)

    async def generate(self, payload: dict[str, Any], *, deadline_s: float = 600.0) -> Any:
        """``/generate`` without streaming: the reply's JSON."""
        return await self._call("POST", "/generate", payload={**payload, "stream": False}, deadline_s=deadline_s)

    # ------------------------------------------------------------------------------------------ changes

    async def set_internal_state(self, values: dict[str, float], *, deadline_s: float = 60.0) -> list[bool]:
        """``/set_internal_state``: numbers only. One verdict per data-parallel rank; a refusal is ``False`` and HTTP 200."""
        payload = {"server_args": values}
        answer = await self._call("POST", "/set_internal_state", payload=payload, admin=True, deadline_s=deadline_s)
        verdicts = answer if isinstance(answer, list) else [answer]
        return [
            verdict is True or (isinstance(verdict, dict) and verdict.get("updated") is True) for verdict in verdicts
        ]

    async def pause(self, mode: str = "retract") -> None:
        """``/pause_generation``: ``retract`` requeues running requests, ``in_place`` freezes them, ``abort`` ends them."""
        await self._call("POST", "/pause_generation", payload={"mode": mode}, admin=True, want="nothing")

    async def continue_(self) -> None:
        """``/continue_generation``, without emptying the allocator's cache on every rank."""
        await self._call(
            "POST", "/continue_generation", payload={"torch_empty_cache": False}, admin=True, want="nothing"
        )

    async def flush_cache(self, *, wait_s: float = 0.0) -> None:
        """``/flush_cache``: refused (400) while requests run or wait, unless they end within ``wait_s``."""
        path = f"/flush_cache?timeout={wait_s:g}" if wait_s > 0 else "/flush_cache"
        await self._call("POST", path, admin=True, want="nothing", deadline_s=NORMAL_S + wait_s)

    async def weights_checker(self, *, selector: str = "draft", deadline_s: float = 120.0) -> dict[str, Any]:
        """``/weights_checker`` with action ``checksum``: what is loaded, on every rank. No other action is ever sent."""
        payload = {"action": "checksum", "selector": selector}
        answer = await self._call("POST", "/weights_checker", payload=payload, admin=True, deadline_s=deadline_s)
        if not isinstance(answer, dict):
            raise EngineRefused("the engine's answer to /weights_checker is no JSON object")
        return answer

    # ------------------------------------------------------------------------------------------ how

    async def _object(self, *paths: str, deadline_s: float) -> dict[str, Any]:
        """A JSON object from the first of the paths that exists."""
        for path in paths[:-1]:
            try:
                return self._as_object(await self._call("GET", path, deadline_s=deadline_s), path)
            except EngineRefused as refused:
                if refused.status not in {404, 405}:
                    raise
        return self._as_object(await self._call("GET", paths[-1], deadline_s=deadline_s), paths[-1])

    @staticmethod
    def _as_object(answer: Any, path: str) -> dict[str, Any]:
        if not isinstance(answer, dict):
            raise EngineRefused(
                f"the engine's answer to {path} is no JSON object", todo="is this an SGLang server's address?"
            )
        return answer

    async def _call(
        self,
        method: str,
        path: str,
        *,
        payload: dict[str, Any] | None = None,
        admin: bool = False,
        deadline_s: float = NORMAL_S,
        want: str = "json",
        limit_bytes: int = JSON_LIMIT_BYTES,
    ) -> Any:
        import aiohttp

        if self._session is None:
            raise EngineUnreachable(f"no connection to {self.url}", why="the client is closed")
        key = self._admin_key if admin else self._api_key
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        shown = f"{method} {path.partition('?')[0]}"
        try:
            async with asyncio.timeout(deadline_s):
                async with self._session.request(
                    method,
                    self.url + path,
                    json=payload,
                    headers=headers,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(),
                ) as reply:
                    body = await _read(reply, limit_bytes if want != "nothing" or reply.status >= 300 else 0)
                    status = reply.status
        except TimeoutError as error:
            raise EngineUnreachable(
                f"{self.url} does not answer {shown}", why=f"nothing complete within {deadline_s:g} s"
            ) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise EngineUnreachable(f"{self.url} cannot be reached", why=_reason(error)) from error
        if status >= 300:
            raise _refusal(shown, status, body)
        if want == "nothing":
            return None
        text = body.decode("utf-8", errors="replace")
        return text if want == "text" else _json(text, shown)


def normal_url(url: str) -> str:
    """An address without a path at its end; ``http://`` is added where a scheme is missing.

    Raises:
        ConsoleError: it is no HTTP address.
    """
    given = url.strip()
    address = given if "://" in given else f"http://{given}"
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        raise ConsoleError(
            f"{sanitize(given)!r} is no address", why=str(error), todo="give http://HOST:PORT", code=ExitCode.USAGE
        ) from error
    if parts.scheme not in {"http", "https"} or not parts.hostname or any(mark.isspace() for mark in given):
        raise ConsoleError(f"{sanitize(given)!r} is no address", todo="give http://HOST:PORT", code=ExitCode.USAGE)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path.rstrip('/')}"


async def _read(reply: aiohttp.ClientResponse, limit_bytes: int) -> bytes:
    """The body, at most ``limit_bytes`` of it.

    Raises:
        EngineRefused: the body is longer.
    """
    if not limit_bytes:
        return b""
    pieces: list[bytes] = []
    size = 0
    async for piece in reply.content.iter_chunked(256 * 1024):
        size += len(piece)
        if size > limit_bytes:
            if reply.status >= 300:
                break
            raise EngineRefused(
                f"the answer is longer than {limit_bytes // 1024 // 1024} MiB",
                todo="is this an SGLang server's address?",
            )
        pieces.append(piece)
    return b"".join(pieces)


def _reason(error: Exception) -> str:
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorError):
        return error.os_error.strerror or str(error.os_error)
    return sanitize(str(error) or type(error).__name__, limit_chars=300)


def _refusal(shown: str, status: int, body: bytes) -> EngineRefused:
    if 300 <= status < 400:
        return EngineRefused(
            f"{shown} was redirected ({status})",
            why="SGLang never redirects",
            todo="give the server's own address",
            status=status,
        )
    said = _said(body)
    if status in {401, 403}:
        return EngineRefused(
            f"{shown} was refused ({status})", why=said, todo="give the server's API key (admin key)", status=status
        )
    if status == 404:
        return EngineRefused(f"the server has no {shown} (404)", why=said, status=status)
    return EngineRefused(f"{shown} failed ({status})", why=said, status=status)


def _said(body: bytes) -> str:
    """The server's own words in an error's body, short."""
    text = body[:4096].decode("utf-8", errors="replace").strip()
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        answer = None
    if isinstance(answer, dict):
        for key in ("message", "error", "detail"):
            value = answer.get(key)
            if isinstance(value, dict):
                value = value.get("message")
            if isinstance(value, str) and value:
                return sanitize(value, limit_chars=300)
    return "" if text.startswith("<") else sanitize(text, limit_chars=200)


def _json(text: str, shown: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        why = "it is HTML" if text.lstrip()[:1] == "<" else "it is empty" if not text.strip() else "it is no JSON"
        raise EngineRefused(
            f"the answer to {shown} cannot be read", why=why, todo="is this an SGLang server's address?"
        ) from error
