"""The command for alarms, and who has seen one."""

import json
import queue
import sys
import time

import msgspec
import pytest

from console import rig
from console.agent import alarm_hook, identity
from console.agent.alarm import Alarms
from console.agent.alarm_hook import AlarmHook
from console.agent.client import AgentClient, AgentError
from console.paths import RigPaths
from profiles.schema import AlarmSection
from tests.agent.control import controlled

NOW = 1_800_000_000.0
LOSES = rig.Alarm("loses", "warn", NOW, "speculation loses \x1b[31m", ("verify is slow",))
LOST = rig.Alarm("gpu-lost-1", "error", NOW, "GPU 1 lost")

WRITER = """
import os, sys
text = sys.stdin.read()
open(sys.argv[1], "a").write(text)
print("said on stdout")
"""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLANG_CONSOLE_HOME", str(tmp_path))
    return tmp_path


def snapshot(*alarms):
    return rig.Snapshot(at_s=NOW + 1, simulated=True, alarms=alarms, engine=rig.Engine(profile="story"))


def lines(path, count, timeout_s=10.0):
    deadline = time.monotonic() + timeout_s
    while not path.exists() or path.read_text().count("\n") < count:
        assert time.monotonic() < deadline, "the command was not called"
        time.sleep(0.02)
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_it_is_called_when_an_alarm_rises_and_when_it_is_over(tmp_path):
    out, told = tmp_path / "out", []
    section = AlarmSection(command=(sys.executable, "-c", WRITER, str(out)))
    hook = AlarmHook("box", tmp_path / "log", told.append)
    hook.seen(snapshot(), section)
    hook.seen(snapshot(LOSES), section)
    hook.seen(snapshot(LOSES), section)
    hook.seen(snapshot(msgspec.structs.replace(LOSES, acknowledged_by="ann"), LOST), section)
    hook.seen(snapshot(LOST), section)
    found = lines(out, 3)
    assert [(entry["event"], entry["alarm"]["id"]) for entry in found] == [
        ("raised", "loses"),
        ("raised", "gpu-lost-1"),
        ("over", "loses"),
    ]
    assert found[0]["alarm"]["causes"] == ["verify is slow"]
    assert (found[0]["rig"], found[0]["simulated"], found[0]["profile"]) == ("box", True, "story")
    assert found[2]["alarm"]["acknowledged_by"] == "ann"
    assert told == []
    assert "said on stdout" in (tmp_path / "log").read_text()


def test_without_a_command_nothing_is_called_and_standing_alarms_are_not_news(tmp_path):
    out = tmp_path / "out"
    hook = AlarmHook("box", tmp_path / "log", lambda line: pytest.fail(line))
    hook.seen(snapshot(LOSES), None)
    hook.seen(snapshot(LOSES), AlarmSection())
    hook.seen(snapshot(LOSES, LOST), AlarmSection(command=(sys.executable, "-c", WRITER, str(out))))
    assert [entry["alarm"]["id"] for entry in lines(out, 1)] == ["gpu-lost-1"]


def test_a_command_that_hangs_is_ended_with_its_children(tmp_path):
    script = "import subprocess, sys, time; p = subprocess.Popen(['sleep', '60']); open(sys.argv[1], 'w').write(str(p.pid)); time.sleep(60)"
    begun = time.monotonic()
    problem = alarm_hook.run((sys.executable, "-c", script, str(tmp_path / "pid")), b"{}", 1.5, tmp_path / "log")
    assert problem.endswith("took longer than 1.5 s and was ended")
    assert time.monotonic() - begun < 10
    child = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 5
    while (entry := identity.entry(child)) is not None and not entry.ended:
        assert time.monotonic() < deadline, "its child lives"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("/no/such/program",), "/no/such/program: No such file or directory"),
        (("/etc",), "Permission denied"),
        (("sh\x00",), "embedded null byte"),
        (("sh", "-c", "exit 3"), "ended with exit code 3"),
        (("sh", "-c", "exec 0<&-; sleep 0.2"), ""),
    ],
)
def test_a_command_that_fails_is_one_line(tmp_path, command, words):
    problem = alarm_hook.run(command, b"x" * 1_000_000, 5.0, tmp_path / "log")
    assert (words in problem) if words else problem == ""


def test_calls_do_not_pile_up_without_bound(tmp_path, monkeypatch):
    told = []
    hook = AlarmHook("box", tmp_path / "log", told.append)
    hook._thread = object()  # a command that never ends
    hook._calls = queue.Queue(3)
    for number in range(5):
        alarm = msgspec.structs.replace(LOSES, id=f"a{number}")
        hook.seen(snapshot(alarm), AlarmSection(command=("true",)))
    assert hook._calls.full()
    assert told
    assert "calls are waiting" in told[0]


def test_a_dead_engine_is_an_alarm_until_somebody_acts():
    alarms = Alarms()
    failure = rig.Failure("oom", "CUDA out of memory", advice="lower it")
    dead = rig.Snapshot(at_s=NOW, engine=rig.Engine(state=rig.EngineState.DEAD, failure=failure))
    (alarm,), events = alarms.update(dead)
    assert (alarm.id, alarm.level, alarm.text) == ("engine-dead", "error", "the engine is dead: CUDA out of memory")
    assert alarm.causes == ("lower it",)
    assert events == (), "the supervisor has told it already"
    standing, events = alarms.update(rig.Snapshot(at_s=NOW + 1, engine=rig.Engine(state=rig.EngineState.STARTING)))
    assert standing == ()
    assert events == ()


async def test_acknowledged_over_the_socket(tmp_path):
    import asyncio

    async with controlled(tmp_path) as rig_:
        seen = []
        rig_.measure.acknowledge = lambda alarm_id, by: seen.append((alarm_id, by)) or alarm_id == "loses"
        serving = asyncio.create_task(rig_.daemon.serve(rig_.paths.socket))
        await rig_.until(rig_.paths.socket.exists)
        client = AgentClient(RigPaths("test"))
        await asyncio.to_thread(client.acknowledge, "loses", "ann\x1b[2J")
        with pytest.raises(AgentError, match="no alarm 'other' holds - it is over, or never was") as refused:
            await asyncio.to_thread(client.acknowledge, "other", "ann")
        assert refused.value.status == 404
        with pytest.raises(AgentError, match="this is no alarm"):
            await asyncio.to_thread(client._ask, "POST", "/v1/alarms/ack", {"id": 5})
        with pytest.raises(AgentError, match="are no range"):
            await asyncio.to_thread(client.series, 0.0, 1.0, 0.0)
        with pytest.raises(AgentError, match="are more than 2000"):
            await asyncio.to_thread(client.series, 0.0, 1e6, 1.0)
        assert seen[0] == ("loses", "ann")
        assert rig_.measure.events[-1].text == "alarm loses seen by ann"
        rig_.daemon.stop()
        await serving
