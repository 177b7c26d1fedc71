import asyncio
import json
import time

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from console.engine.http import EngineClient, EngineRefused, EngineUnreachable, normal_url
from console.errors import ConsoleError, ExitCode
from tests.engine import fixtures


@pytest.fixture
async def serve():
    servers = []

    async def start(**routes):
        app = web.Application()
        for path, handler in routes.items():
            app.router.add_route("*", "/" + path.replace("__", "/"), handler)
        server = TestServer(app)
        await server.start_server()
        servers.append(server)
        return str(server.make_url("")).rstrip("/")

    yield start
    for server in servers:
        await server.close()


def reply(body="", status=200, kind="application/json", seen=None):
    async def handler(request):
        if seen is not None:
            seen.append((request.method, request.path_qs, request.headers.get("Authorization"), await request.text()))
        return web.Response(text=body, status=status, content_type=kind)

    return handler


async def test_captured_bodies_come_through(serve):
    folder = fixtures.ROOT / "h200-0.5.17/main/http_idle"
    url = await serve(
        server_info=reply((folder / "server_info.txt").read_text()),
        model_info=reply((folder / "model_info.txt").read_text()),
        v1__loads=reply((folder / "v1_loads.txt").read_text()),
        metrics=reply((folder / "metrics.txt").read_text(), kind="text/plain"),
    )
    async with EngineClient(url) as client:
        assert (await client.server_info())["version"] == "0.5.17"
        assert (await client.model_info())["model_path"] == "/models/target"
        assert (await client.loads())["loads"][0]["dp_rank"] == 0
        assert await client.metrics_text() == (folder / "metrics.txt").read_text()


async def test_older_names_are_tried(serve):
    url = await serve(get_server_info=reply('{"version": "0.5.6"}'), get_model_info=reply('{"model_path": "m"}'))
    async with EngineClient(url) as client:
        assert (await client.server_info()) == {"version": "0.5.6"}
        assert (await client.model_info()) == {"model_path": "m"}
        await client.ping()
        assert await client.ready()


@pytest.mark.parametrize(("status", "ready"), [(200, True), (503, False)])
async def test_ready(serve, status, ready):
    async with EngineClient(await serve(ready=reply(status=status))) as client:
        assert await client.ready() is ready


async def test_ready_without_the_route_remembers_that(serve):
    seen = []
    url = await serve(ready=reply(status=404, seen=seen), v1__models=reply('{"data": []}'))
    async with EngineClient(url) as client:
        assert await client.ready()
        assert await client.ready()
    assert len(seen) == 1


async def test_keys_go_where_they_belong(serve):
    seen = []
    url = await serve(
        model_info=reply("{}", seen=seen),
        set_internal_state=reply("[true, false]", seen=seen),
        pause_generation=reply("{}", seen=seen),
    )
    async with EngineClient(url, api_key="plain", admin_key="admin") as client:
        await client.model_info()
        assert await client.set_internal_state({"spec_console_cmd": 7}) == [True, False]
        await client.pause("in_place")
    assert [key for _, _, key, _ in seen] == ["Bearer plain", "Bearer admin", "Bearer admin"]
    assert json.loads(seen[1][3]) == {"server_args": {"spec_console_cmd": 7}}
    assert json.loads(seen[2][3]) == {"mode": "in_place"}


@pytest.mark.parametrize("path", sorted(fixtures.ROOT.rglob("set_internal_state-*.json")), ids=fixtures.name)
async def test_captured_verdicts(serve, path):
    async with EngineClient(await serve(set_internal_state=reply(path.read_text()))) as client:
        assert await client.set_internal_state({"x": 1}) == ["unsupported" not in path.name]


async def test_changes_are_spelled_as_sglang_wants(serve):
    seen = []
    checked = reply('{"success": true}', seen=seen)
    url = await serve(
        continue_generation=reply("{}", seen=seen),
        flush_cache=reply("done", seen=seen, kind="text/plain"),
        weights_checker=checked,
    )
    async with EngineClient(url) as client:
        await client.continue_()
        await client.flush_cache(wait_s=5)
        assert (await client.weights_checker())["success"] is True
    assert json.loads(seen[0][3]) == {"torch_empty_cache": False}
    assert seen[1][1] == "/flush_cache?timeout=5"
    assert json.loads(seen[2][3]) == {"action": "checksum", "selector": "draft"}


@pytest.mark.parametrize(
    ("handler", "line"),
    [
        (reply("<html>proxy</html>", kind="text/html"), "it is HTML"),
        (reply(""), "it is empty"),
        (reply("{"), "it is no JSON"),
        (reply("[" * 100_000), "it is no JSON"),
        (reply("[1]"), "no JSON object"),
        (reply('{"error":"Unauthorized"}', status=401), "refused \\(401\\) - Unauthorized - give the server's API key"),
        (
            reply('{"detail":"\x1b[31mnope hf_abcdefghijklmnopqrstu"}'.replace("\x1b", "\\u001b"), status=500),
            "failed \\(500\\) - nope \\*\\*\\*",
        ),
        (reply(status=302), "redirected"),
    ],
)
async def test_what_is_no_answer_is_one_line(serve, handler, line):
    async with EngineClient(await serve(server_info=handler)) as client:
        with pytest.raises(EngineRefused, match=line) as refused:
            await client.server_info()
    assert "\n" not in refused.value.line
    assert refused.value.code == ExitCode.FAILED


async def test_nothing_listens():
    async with EngineClient("http://127.0.0.1:1") as client:
        with pytest.raises(EngineUnreachable, match="cannot be reached") as error:
            await client.ping()
    assert error.value.code == ExitCode.UNREACHABLE


async def test_no_http_at_all():
    async def chatter(reader, writer):
        writer.write(b"SSH-2.0-OpenSSH\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(chatter, "127.0.0.1", 0)
    async with server, EngineClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as client:
        with pytest.raises(EngineUnreachable):
            await client.model_info()


async def test_a_body_that_never_ends_stops_at_the_limit_or_the_deadline(serve, monkeypatch):
    async def endless(request):
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 65536)
        except (ConnectionError, asyncio.CancelledError):
            return response

    async def slow(request):
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x")
                await asyncio.sleep(0.02)
        except (ConnectionError, asyncio.CancelledError):
            return response

    monkeypatch.setattr("console.engine.http.JSON_LIMIT_BYTES", 1024 * 1024)
    monkeypatch.setattr("console.engine.http.METRICS_LIMIT_BYTES", 1024 * 1024)
    url = await serve(generate=endless, metrics=endless, ping=slow)
    async with EngineClient(url) as client:
        with pytest.raises(EngineRefused, match="longer than"):
            await client.metrics_text()
    async with EngineClient(await serve(model_info=slow)) as client:
        monkeypatch.setattr("console.engine.http.QUICK_S", 0.2)
        began = time.monotonic()
        with pytest.raises(EngineUnreachable, match=r"nothing complete within 0\.2 s"):
            await client.model_info()
        assert time.monotonic() - began < 2


async def test_health_says_no_and_yes(serve):
    async with EngineClient(await serve(health=reply(status=503))) as client:
        assert await client.health() is False
    async with EngineClient(await serve(health=reply())) as client:
        assert await client.health() is True


async def test_a_closed_client_says_so():
    with pytest.raises(EngineUnreachable, match="closed"):
        await EngineClient("http://127.0.0.1:1").ping()


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("127.0.0.1:30000", "http://127.0.0.1:30000"),
        ("http://box:30000/", "http://box:30000"),
        (" https://box/sgl/ ", "https://box/sgl"),
        ("http://[::1]:30000", "http://[::1]:30000"),
    ],
)
def test_addresses(given, url):
    assert normal_url(given) == url


@pytest.mark.parametrize(
    "given",
    ["", "http://", "ftp://x", "http://x:99999", "http://x:abc", "http://[::1", "file:///etc/passwd", "http://a b"],
)
def test_no_addresses(given):
    with pytest.raises(ConsoleError, match="is no address"):
        EngineClient(given)
