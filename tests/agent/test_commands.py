"""The commands that act on a rig, against a daemon that serves in a thread of its own loop."""

import asyncio
import contextlib
import json
import os
import signal
import threading

import pytest

from console import cli, rig
from console.commands import _rig, status
from console.errors import ConsoleError, ExitCode
from console.rig import EngineState
from tests.agent.control import Control, profile


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLANG_CONSOLE_HOME", str(tmp_path))


@pytest.fixture
def served(tmp_path):
    """A daemon on its own loop; ``call`` runs a coroutine there."""
    made, ready = {}, threading.Event()

    def run():
        async def serve():
            control = Control(tmp_path)
            made.update(control=control, loop=asyncio.get_running_loop())
            await control.daemon.serve(control.paths.socket, listening=ready.set)
            await control.close()

        asyncio.run(serve())

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(10)
    control = made["control"]
    control.call = lambda work: asyncio.run_coroutine_threadsafe(work, made["loop"]).result(30)
    yield control
    with contextlib.suppress(RuntimeError):  # a test may have ended it, and its loop with it
        made["loop"].call_soon_threadsafe(control.daemon.stop)
    thread.join(20)
    assert not thread.is_alive()


@pytest.fixture
def console(capsys):
    def run(*words):
        try:
            cli.main(list(words))
            code = 0
        except SystemExit as ended:
            code = ended.code
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_nothing_runs(console):
    for words in (
        ["status"],
        ["status", "--json"],
        ["stop"],
        ["depth", "1", "--yes"],
        ["agent", "status"],
        ["restart"],
    ):
        code, out, err = console(*words)
        assert (code, out) == (3, "")
        assert err.startswith("console: ")
        assert err.count("\n") == 1


def test_status_of_a_ready_engine_and_of_a_dead_one(console, served):
    code, out, _ = console("status")
    assert code == 3
    assert "NONE" in out
    served.call(served.up())
    code, out, _ = console("status")
    assert code == 0
    assert "READY" in out
    assert "fake" in out
    code, out, err = console("status", "--json")
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert (document["simulated"], document["engine"]["state"]) == (False, "ready")
    os.kill(served.pid, signal.SIGKILL)
    served.call(served.until(lambda: served.engine.state is EngineState.DEAD))
    code, out, _ = console("status")
    assert code == 4
    assert "why        the launcher was killed by SIGKILL" in out


def test_depth_asks_and_tells(console, served, monkeypatch):
    served.call(served.up())
    code, out, err = console("depth", "3")
    assert (code, out) == (2, "")
    assert "add --yes" in err
    code, out, err = console("depth", "3", "--yes", "--json")
    document = json.loads(out)
    assert code == 0
    assert (document["state"], document["kind"], document["simulated"]) == ("done", "depth", False)
    assert "2 -> 3" in err
    code, out, err = console("depth", "3", "--yes")
    assert code == 1
    assert "depth is 3 already" in err
    code, _, err = console("depth", "many", "--yes")
    assert code == 2
    code, _, err = console("swap", "/no/such/folder", "--yes")
    assert code == 4
    assert "no folder" in err
    code, out, err = console("stop")
    assert code == 0
    assert out.startswith("done: stopped in ")
    code, _, err = console("stop")
    assert code == 3


def test_run_follows_the_phases(console, served, monkeypatch):
    found = served.add(profile())
    monkeypatch.setattr("profiles.store.load", lambda name: found)
    code, out, err = console("run", "fake")
    assert code == 0
    assert "fake is ready" in out
    assert found.engine.model in err
    assert "First token" in err or "Imports" in err


def test_an_answer_of_no_leaves_everything_as_it_is(served, monkeypatch):
    import click

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(click, "confirm", lambda *args, **kwargs: (_ for _ in ()).throw(click.Abort()))
    served.call(served.up())
    pid = served.pid
    with pytest.raises(click.Abort):
        _rig.change(
            _rig.connect(type("Obj", (), {"rig": None})()),
            "depth",
            {"depth": 3},
            yes=False,
            as_json=False,
            refused_code=ExitCode.FAILED,
        )
    assert served.pid == pid


def test_agent_status_logs_and_stop(console, served):
    code, out, _ = console("agent", "status", "--json")
    assert json.loads(out)["rig"] == "test"
    assert code == 0
    code, _, _ = console("--rig", "other", "agent", "logs")
    assert code == 3
    code, out, _ = console("agent", "stop")
    assert code == 0
    assert "runs on" in out


# ------------------------------------------------------------------------------------------------- the text


def test_text_of_the_server_cannot_steer_the_terminal(capsys):
    evil = "model\x1b]0;owned\x07\n\x1b[2J"
    engine = rig.Engine(state=EngineState.READY, model=evil, drafter=evil, algorithm="EAGLE3", note=evil)
    status.print_status(rig.Snapshot(at_s=1.0, rig="r", engine=engine, simulated=True))
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert out.startswith("SIMULATED")


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (EngineState.NONE, 3),
        (EngineState.STOPPED, 3),
        (EngineState.DEAD, 4),
        (EngineState.UNREACHABLE, 4),
        (EngineState.BUSY, 0),
        (EngineState.STARTING, 0),
    ],
)
def test_exit_codes(state, code):
    assert status.exit_code(rig.Snapshot(engine=rig.Engine(state=state))) == code


def test_what_is_not_known_is_a_dash(capsys):
    status.print_status(rig.Snapshot(engine=rig.Engine(state=EngineState.READY, model="m", algorithm="EAGLE3")))
    out = capsys.readouterr().out
    assert "running -   queued -" in out
    assert "0.00" not in out


def test_auto_is_no_depth():
    from console.commands.depth import parse

    assert parse("auto") is None
    assert parse("0") == 0
    for nonsense in ("", "-1", "1.5", "²", "9999"):
        with pytest.raises(ConsoleError):
            parse(nonsense)
