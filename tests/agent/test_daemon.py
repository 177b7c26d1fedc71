"""The agent as a process of its own: detached, alone, replaceable."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from console import rig
from console.agent import identity
from console.agent.client import AgentClient
from console.agent.spawn import ensure_agent
from console.errors import ConsoleError
from console.paths import RigPaths
from profiles import store
from profiles.schema import EngineSection, Environment, Profile, Speculation
from tests.agent.fake_engine import free_port


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLANG_CONSOLE_HOME", str(tmp_path))
    yield tmp_path
    for folder in (tmp_path / "state" / "rigs").glob("*"):
        end(RigPaths(folder.name))


def end(paths):
    """End what a test has left: the engine through its agent, then the agent."""
    client = AgentClient(paths)
    try:
        pid = client.ping()["pid"]
        engine = client.snapshot().engine.pid
    except ConsoleError:
        return
    if engine:
        os.killpg(engine, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)


def wait_for(condition, timeout_s=10.0):
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.02)
    return found


def gone(pid):
    found = identity.entry(pid)
    return found is None or found.ended


@pytest.fixture
def profile():
    store.save(
        Profile(
            name="quick",
            engine=EngineSection(
                module="console.simulate",
                simulated=True,
                model="sim/kimi-k2.5",
                tp=2,
                port=free_port(),
                env=Environment(set={"SGLANG_SIM_SPEED": "30"}),
                args=("--sim-clients", "none"),
            ),
            speculation=Speculation(algorithm="EAGLE3", drafter="sim/own-37k", steps=2, topk=1),
        )
    )
    return "quick"


def launch(client, name):
    operation = client.operate("launch", {"profile": name}, "ann")
    wait_for(lambda: client.snapshot().operation.state is not rig.OperationState.RUNNING)
    done = client.snapshot().operation
    assert (done.id, done.state) == (operation.id, rig.OperationState.DONE), done.message


def test_detached_alone_and_gone_without_a_trace():
    client = ensure_agent("solo", simulated=True)
    pid = client.ping()["pid"]
    found = identity.entry(pid)
    assert found.session != pid  # no session leader: it can get no terminal
    assert found.session != os.getsid(0)
    assert str(Path(f"/proc/{pid}/cwd").readlink()) == "/"
    assert str(Path(f"/proc/{pid}/fd/0").readlink()) == os.devnull
    log = RigPaths("solo").agent_log
    assert Path(f"/proc/{pid}/fd/2").readlink() == log
    assert log.stat().st_mode & 0o777 == 0o600

    assert ensure_agent("solo").ping()["pid"] == pid
    second = subprocess.run(
        [sys.executable, "-m", "console.agent", "--rig", "solo"], capture_output=True, text=True, timeout=30
    )
    assert second.returncode == 1
    assert f"runs already - pid {pid}" in second.stderr

    os.kill(pid, signal.SIGHUP)
    time.sleep(0.1)
    assert client.ping()["pid"] == pid
    client.stop_agent()
    wait_for(lambda: gone(pid))
    assert not RigPaths("solo").socket.exists()


def test_kill_9_of_the_agent_and_its_adoption_then_sigterm(profile):
    client = ensure_agent("pair", simulated=True)
    launch(client, profile)
    engine = client.snapshot().engine.pid
    agent = client.ping()["pid"]
    os.kill(agent, signal.SIGKILL)
    wait_for(lambda: gone(agent))
    assert not gone(engine)

    client = ensure_agent("pair")
    snapshot = client.snapshot()
    assert (snapshot.engine.state, snapshot.engine.pid) == (rig.EngineState.READY, engine)
    assert snapshot.simulated
    agent = client.ping()["pid"]
    os.kill(agent, signal.SIGTERM)
    wait_for(lambda: gone(agent))
    assert not gone(engine)

    client = ensure_agent("pair")
    os.kill(engine, signal.SIGKILL)
    begun = time.monotonic()
    wait_for(lambda: client.snapshot().engine.state is rig.EngineState.DEAD)
    assert time.monotonic() - begun < 2.0
    assert client.snapshot().engine.failure.message


def test_the_terminal_that_started_it_may_close(profile):
    program = (
        "from console.agent.spawn import ensure_agent; import time\n"
        "client = ensure_agent('term', simulated=True)\n"
        f"client.operate('launch', {{'profile': {profile!r}}})\n"
        "print('begun', flush=True); time.sleep(60)\n"
    )
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-c", program])
    said = b""
    while b"begun" not in said:
        said += os.read(terminal, 1000)
    os.close(terminal)  # the kernel sends SIGHUP to whoever sits on it
    os.waitpid(child, 0)
    client = AgentClient(RigPaths("term"))
    wait_for(lambda: client.snapshot().engine.state is rig.EngineState.READY)


def test_an_agent_that_cannot_start_says_why(monkeypatch, tmp_path):
    paths = RigPaths("broken")
    paths.make()
    paths.lock.mkdir()
    with pytest.raises(ConsoleError, match=r"did not come up - IsADirectoryError"):
        ensure_agent("broken")


def test_a_log_that_cannot_be_written_is_one_line(tmp_path):
    RigPaths("mute").make()
    RigPaths("mute").agent_log.mkdir()
    ended = subprocess.run(
        [sys.executable, "-m", "console.agent", "--rig", "mute", "--detach", "--ready-fd", "1"],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert "agent.log cannot be written - Is a directory" in ended.stdout
    assert "Traceback" not in ended.stderr


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SGLANG_CONSOLE_HOME", str(tmp_path / "file"))
    with pytest.raises(ConsoleError, match="cannot make"):
        ensure_agent("x")
