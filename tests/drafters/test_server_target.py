"""``--target URL``: what a running server tells of its target, and what it does not."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from console.drafters.check import check
from console.drafters.verdict import Verdict
from console.errors import ConsoleError, ExitCode
from console.simulate.answers import TARGET_CONFIG
from tests.drafters.build import KIMI, config, folder, target
from tests.drafters.test_verdicts import failed


class Server:
    """``/server_info`` with whatever a test puts there."""

    def __init__(self) -> None:
        self.info: Any = {}
        self.status = 200
        self.old_route = False
        self.asked: list[tuple[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                outer.asked.append((self.path, self.headers.get("Authorization", "")))
                missing = outer.old_route and self.path == "/server_info"
                body = outer.info if isinstance(outer.info, bytes) else json.dumps(outer.info).encode()
                self.send_response(404 if missing else outer.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture
def info(tmp_path: Path) -> dict[str, Any]:
    return {
        "model_path": str(target(tmp_path / "target")), "served_model_name": "org/Tiny-1", "tp_size": 2, "version": "0.5.23",
        "speculative_algorithm": "EAGLE3", "speculative_draft_model_path": str(folder(tmp_path / "running")),
        "context_length": None, "speculative_use_rejection_sampling": False,
    }  # fmt: skip


def test_the_running_drafter_is_taken_from_the_server(tmp_path, server, info):
    server.info = info
    judgement, subject = check(str(folder(tmp_path / "copy")), target=server.url)
    assert judgement.verdict is Verdict.SAME
    assert subject.running is not None
    assert (subject.target.tp, subject.target.context_len, subject.target.version) == (2, 4096, "0.5.23")


@pytest.mark.parametrize(
    ("change", "identity", "values"),
    [
        ({"speculative_algorithm": "EAGLE"}, "C2", ("EAGLE3", "EAGLE")),
        ({"tp_size": 3}, "C15", (4, 3)),
        ({"context_length": 100_000}, "C16", (4096, 100_000)),
        ({"speculative_use_rejection_sampling": True}, "C21", (64, 256)),
    ],
)
def test_what_only_a_server_knows(tmp_path, server, info, change, identity, values):
    server.info = info | change
    judgement, _ = check(str(folder(tmp_path / "d")), target=server.url)
    found = failed(judgement, identity)
    assert (found.drafter, found.reference) == values


def test_the_older_route(tmp_path, server, info):
    server.info, server.old_route = info, True
    assert check(str(folder(tmp_path / "d")), target=server.url)[0].verdict is Verdict.SAME
    assert [path for path, _ in server.asked] == ["/server_info", "/get_server_info"]


def test_a_target_that_cannot_be_read_here_is_unknown_and_says_why(tmp_path, server, info, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    server.info = info | {"model_path": "org/Somewhere", "speculative_draft_model_path": "org/AlsoThere"}
    judgement, _ = check(str(folder(tmp_path / "d")), target=server.url)
    assert judgement.verdict is Verdict.UNKNOWN
    assert "org/Somewhere" in judgement.why


def test_keys(tmp_path, server, info, monkeypatch):
    server.info, server.status = info, 401
    with pytest.raises(ConsoleError, match="set SGLANG_API_KEY") as caught:
        check(str(folder(tmp_path / "d")), target=server.url)
    assert caught.value.code is ExitCode.UNREACHABLE
    monkeypatch.setenv("SGLANG_API_KEY", "sesame")
    server.status = 200
    check(str(folder(tmp_path / "e")), target=server.url)
    assert server.asked[-1][1] == "Bearer sesame"


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"[" * 100_000, b""])
def test_what_is_no_server_info(tmp_path, server, body):
    server.info = body
    try:
        judgement, _ = check(str(folder(tmp_path / "d")), target=server.url)
    except ConsoleError as error:
        assert error.code is ExitCode.UNREACHABLE
        assert "\n" not in error.line
    else:
        assert judgement.verdict is Verdict.UNKNOWN


def test_the_simulated_target_has_a_geometry(tmp_path, server):
    server.info = {"model_path": "sim/Kimi-K2.5", "simulated": {"target": TARGET_CONFIG}, "tp_size": 8,
                   "speculative_algorithm": "EAGLE3"}  # fmt: skip
    judgement, _ = check(str(folder(tmp_path / "d", config(KIMI), base_model="sim/Kimi-K2.5")), target=server.url)
    assert judgement.verdict is Verdict.RESTART
    assert failed(check(str(folder(tmp_path / "tiny")), target=server.url)[0], "C3").reference == 7168
