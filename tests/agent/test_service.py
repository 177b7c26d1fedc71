"""The agent's routes through its own client, over a real Unix socket."""

import asyncio
import http.client
import os
import socket
import threading
import time

import msgspec
import pytest

from console import calibration, rig
from console.agent import ledger, service
from console.agent.client import AgentClient, AgentError, AgentGoneError, choose, connect, who
from console.errors import ConsoleError, ExitCode
from console.paths import RigPaths
from console.rig import EngineState, OperationState
from tests.agent.control import controlled, profile


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLANG_CONSOLE_HOME", str(tmp_path))


@pytest.fixture
async def served(tmp_path):
    async with controlled(tmp_path) as control:
        listening = asyncio.Event()
        task = asyncio.create_task(control.daemon.serve(control.paths.socket, listening=listening.set))
        await listening.wait()
        control.client = AgentClient(control.paths)
        yield control
        control.daemon.stop()
        await task


async def ask(call, *args, **kwargs):
    return await asyncio.to_thread(call, *args, **kwargs)


def raw(paths, method, path, body=None):
    connection = http.client.HTTPConnection("localhost", timeout=5)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(paths.socket))
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


async def test_ping_snapshot_and_files(served):
    assert (await ask(served.client.ping))["pid"] == os.getpid()
    snapshot = await ask(served.client.snapshot)
    assert snapshot.engine.state is EngineState.NONE
    assert served.paths.socket.stat().st_mode & 0o777 == 0o600
    assert served.paths.runtime.stat().st_mode & 0o777 == 0o700
    status, body = await ask(raw, served.paths, "GET", "/metrics")
    assert status == 200
    assert b"sglang_console_engine_state" in body


async def test_the_whole_life_over_the_socket(served):
    served.add(profile())
    preview = await ask(served.client.preview, "launch", {"profile": "fake"})
    assert preview.title == "launch fake"
    begun = await ask(served.client.operate, "launch", {"profile": "fake"}, "ann")
    assert begun.state is OperationState.RUNNING
    with pytest.raises(AgentError, match="busy: launch fake, asked for by ann") as busy:
        await ask(served.client.operate, "stop", {})
    assert busy.value.status == 409
    done = await served.operator.wait()
    assert done.state is OperationState.DONE, done.message
    page = await ask(served.client.log, limit=3)
    assert len(page["lines"]) <= 3
    assert page["end"] == page["size"]
    rows = await ask(served.client.history, "operations")
    assert [row["kind"] for row in rows] == ["launch"]
    with pytest.raises(AgentError, match="nothing to cancel") as late:
        await ask(served.client.cancel)
    assert late.value.status == 409


async def test_environment_and_runs_come_over_the_socket(served):
    nothing = await ask(served.client.environment)
    assert (nothing.variables, nothing.launcher_why) == ((), "no process of the engine's is on this box")
    found = profile()
    env = msgspec.structs.replace(found.engine.env, set={**found.engine.env.set, "NCCL_ALGO": "Ring"})
    served.add(msgspec.structs.replace(found, engine=msgspec.structs.replace(found.engine, env=env)))
    done = await served.do("launch", profile="fake")
    assert done.state is OperationState.DONE, done.message
    served.measure.reported = {0: {"NCCL_ALGO": "Ring"}, 1: {}}
    matrix = await ask(served.client.environment)
    assert "worker 1 lacks NCCL_ALGO" in matrix.differences
    assert next(v for v in matrix.variables if v.name == "NCCL_ALGO").launcher == "Ring"
    speed = calibration.speed_of([80.0, 82.0])
    cell = calibration.Cell(depth=0, concurrency=1, stream_tok_s=speed, total_tok_s=speed)
    for at_s in (1.0, 2.0, 3.0):
        run = calibration.Calibration(at_s, "f", "d", "p", "s", (cell,))
        ledger.write(served.paths, kind="calibrate", by="ann", profile="fake", result=run)
    runs = await ask(served.client.runs, "calibrate", 2)
    assert [entry.result.at_s for entry in runs] == [2.0, 3.0]
    assert await ask(served.client.runs, "baseline") == []


async def test_errors_are_one_line_with_an_exit_code(served):
    with pytest.raises(AgentError, match="no engine runs") as refused:
        await ask(served.client.operate, "stop", {})
    assert refused.value.status == 422
    with pytest.raises(AgentError, match="no operation") as unknown:
        await ask(served.client.operate, "dance", {})
    assert (unknown.value.code, unknown.value.status) == (ExitCode.USAGE, 422)
    with pytest.raises(AgentError, match="no engine log yet"):
        await ask(served.client.log)
    with pytest.raises(AgentError, match="no history of 'gossip'"):
        await ask(served.client.history, "gossip")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/nowhere", None, 404),
        ("POST", "/v1/ping", None, 405),
        ("POST", "/v1/operations", b"{", 422),
        ("POST", "/v1/operations", b"[]", 422),
        ("POST", "/v1/operations", b'{"kind": 1}', 422),
        ("POST", "/v1/operations", b'{"kind": "stop", "args": []}', 422),
        ("POST", "/v1/preview", b"\xff" * 100_000, 413),
        ("GET", "/v1/log?limit=-1", None, 404),
        ("GET", "/v1/history?since=nan", None, 422),
        ("GET", "/v1/history?since=x", None, 422),
    ],
    ids=lambda value: "long" if isinstance(value, bytes) and len(value) > 99 else None,
)
async def test_nonsense_gets_an_answer(served, method, path, body, status):
    got, answer = await ask(raw, served.paths, method, path, body)
    assert got == status
    error = msgspec.json.decode(answer)
    assert set(error) == {"error", "code"}
    assert "\n" not in error["error"]
    assert (await ask(served.client.ping))["rig"] == "test"


async def test_stream_brings_changes_at_once_and_closes_from_another_thread(served):
    seen, ended = [], threading.Event()
    stream = await ask(served.client.stream)

    def read():
        for snapshot in stream:
            seen.append((time.monotonic(), snapshot))
        ended.set()

    thread = threading.Thread(target=read)
    thread.start()
    await served.until(lambda: len(seen) >= 2)
    begun = time.monotonic()
    served.daemon.events.add("info", "something happened")
    await served.until(lambda: any(found.events for _, found in seen))
    assert next(at for at, found in seen if found.events) - begun < 0.3
    stream.close()
    await served.until(ended.is_set)
    thread.join()


async def test_a_reader_that_does_not_read_delays_nobody(served):
    slow = socket.socket(socket.AF_UNIX)
    slow.connect(str(served.paths.socket))
    slow.sendall(b"GET /v1/stream HTTP/1.1\r\nHost: x\r\n\r\n")
    for _ in range(300):
        served.daemon.events.add("info", "x" * 3000)
        served.daemon.publisher.fresh()
    begun = time.monotonic()
    assert len((await ask(served.client.snapshot)).events) == 200
    assert time.monotonic() - begun < 2.0
    slow.close()


async def test_a_stream_says_that_the_agent_ended(served):
    stream = await ask(served.client.stream)
    iterator = iter(stream)
    await ask(next, iterator)
    served.daemon.stop()

    def rest():
        with pytest.raises(AgentGoneError, match="it ended"):
            for _ in iterator:
                pass

    await ask(rest)


async def test_another_users_process_is_refused(served, monkeypatch):
    monkeypatch.setattr(service, "peer_uid", lambda connection: 4242)
    with pytest.raises(AgentError, match="another user"):
        await ask(served.client.ping)
    monkeypatch.setattr(service, "peer_uid", lambda connection: None)
    with pytest.raises(AgentError, match="another user"):
        await ask(served.client.ping)


def test_the_kernel_tells_who_is_at_the_other_end():
    here, there = socket.socketpair(socket.AF_UNIX)
    with here, there:
        assert service.peer_uid(here) == os.geteuid()


async def test_a_fault_in_composing_does_not_end_the_agent(served, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("nothing")

    monkeypatch.setattr(served.measure, "snapshot", broken)
    served.daemon.publisher.changed()
    assert isinstance(await ask(served.client.snapshot), rig.Snapshot)


async def test_an_agent_of_another_version_is_told_in_one_line(served, monkeypatch):
    monkeypatch.setattr(rig, "SCHEMA", rig.SCHEMA + 1)
    monkeypatch.setattr("console.agent.service.rig", type("Old", (), {"SCHEMA": 1}))
    with pytest.raises(ConsoleError, match=r"another version.*console agent stop"):
        await ask(served.client.ping)


# ------------------------------------------------------------------------------------------------- choosing a rig


def test_no_agent_is_exit_code_3():
    with pytest.raises(ConsoleError) as gone:
        connect(None)
    assert gone.value.code is ExitCode.UNREACHABLE
    assert "default" in gone.value.line


async def test_the_only_one_that_runs_is_meant(served):
    assert await ask(choose, None) == "test"
    assert await ask(choose, "other") == "other"
    with pytest.raises(ConsoleError, match="is no rig name"):
        choose("../x")


def test_a_socket_of_nobody_is_no_agent(tmp_path):
    paths = RigPaths("left")
    paths.make()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(paths.socket))
    with pytest.raises(AgentGoneError, match="not running"):
        AgentClient(paths).ping()


def test_who_names_user_and_where_from(monkeypatch):
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.7 5000 10.0.0.1 22")
    monkeypatch.setenv("LOGNAME", "ann")
    assert who().startswith("ann")
    assert who().endswith("from 10.0.0.7")
