"""The engine's life against a fake engine: what it says when all is well, and when it is not."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from console import rig
from console.agent import identity
from console.agent.state import SCHEMA
from console.rig import EngineState, OperationState
from tests.agent.control import Control, controlled, profile


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLANG_CONSOLE_HOME", str(tmp_path))
    return tmp_path


def lives(pid):
    found = identity.entry(pid)
    return found is not None and not found.ended


async def test_launch_to_first_token_and_stop(tmp_path):
    async with controlled(tmp_path) as rig_:
        await rig_.up()
        engine = rig_.engine
        assert engine.state is EngineState.READY
        names = [phase.name for phase in engine.phases]
        assert names[0] == "imports"
        assert names[-1] == "first_token"
        assert all(phase.seconds is not None for phase in engine.phases)
        assert (engine.depth_launch, engine.draft_tokens, engine.drafter) == (2, 3, "org/a")
        assert rig_.measure.start_list[0].ready
        assert rig_.measure.handles[-1].pid == rig_.pid
        own_session = os.getsid(rig_.pid)
        assert own_session == rig_.pid
        assert str(Path(f"/proc/{rig_.pid}/fd/0").readlink()) == os.devnull
        log = Path(f"/proc/{rig_.pid}/fd/1").readlink()
        assert str(log) == engine.log_path
        assert log.stat().st_mode & 0o777 == 0o600

        pid = rig_.pid
        done = await rig_.do("stop")
        assert (done.state, rig_.engine.state) == (OperationState.DONE, EngineState.STOPPED)
        assert rig_.engine.exit_code == 0
        assert not lives(pid)
        assert identity.entry(pid) is None  # waited for: no zombie
        assert rig_.measure.handles[-1] is None


async def test_minus_nine_after_our_sigterm_is_a_clean_stop(tmp_path):
    async with controlled(tmp_path) as rig_:
        await rig_.up(fake={"exit_code": -9})
        done = await rig_.do("stop")
        assert (done.state, rig_.engine.state) == (OperationState.DONE, EngineState.STOPPED)
        assert rig_.engine.exit_code == -9
        assert rig_.engine.failure is None


async def test_progress_and_eta_come_from_earlier_starts(tmp_path):
    async with controlled(tmp_path) as rig_:
        found = await rig_.up(fake={"start_s": 0.3})
        await rig_.do("stop")
        preview = await rig_.operator.preview("launch", {"profile": found.name})
        assert preview.expected_s == pytest.approx(rig_.measure.start_list[0].seconds)
        assert "1 earlier start" in preview.expected_from
        await rig_.operator.start("launch", {"profile": found.name}, "ann")
        await rig_.until(lambda: rig_.engine.state is EngineState.STARTING)
        assert rig_.engine.eta_from == "1 earlier start"
        assert 0 <= rig_.engine.progress < 1
        assert rig_.engine.eta_s > 0
        await rig_.operator.wait()
        assert rig_.engine.state is EngineState.READY


async def test_kill_9_is_noticed_at_once_and_said_in_the_kernels_words(tmp_path):
    async with controlled(tmp_path) as rig_:
        await rig_.up()
        pid = rig_.pid
        os.kill(pid, signal.SIGKILL)
        begun = time.monotonic()
        await rig_.until(lambda: rig_.engine.state is EngineState.DEAD)
        assert time.monotonic() - begun < 2.0
        assert "SIGKILL" in rig_.engine.failure.message
        assert rig_.engine.exit_code == -9
        assert identity.entry(pid) is None
        assert [event.level for event in rig_.measure.events if "dead" in event.text] == ["error"]


async def test_a_start_that_dies_says_why_in_the_logs_words(tmp_path):
    async with controlled(tmp_path) as rig_:
        rig_.add(profile(fake={"fail": "out-of-memory"}))
        done = await rig_.do("launch", profile="fake")
        assert done.state is OperationState.FAILED
        assert "CUDA out of memory" in done.message
        assert rig_.engine.state is EngineState.DEAD
        assert rig_.engine.failure.kind.startswith("oom")
        assert rig_.engine.failure.advice
        assert not rig_.measure.start_list[0].ready


async def test_port_held_before_the_launch_is_refused_with_its_holder(tmp_path):
    async with controlled(tmp_path) as rig_:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            rig_.add(profile(port=port))
            preview = await rig_.operator.preview("launch", {"profile": "fake"})
            assert f"port {port} is taken" in preview.refused
            assert f"pid {os.getpid()}" in preview.refused
            assert rig_.supervisor.record is None


async def test_port_taken_at_the_end_of_a_start_ends_the_engine_that_would_stay(tmp_path):
    async with controlled(tmp_path) as rig_:
        rig_.add(profile(fake={"fail": "port", "children": 2}))
        done = await rig_.do("launch", profile="fake")
        assert done.state is OperationState.FAILED
        assert rig_.engine.state is EngineState.DEAD
        assert rig_.engine.failure.kind == "port-taken"
        assert not any(lives(one.pid) for one in rig_.supervisor.record.members)


async def test_ignored_sigterm_is_killed_after_the_deadline_with_its_children_only(tmp_path, monkeypatch):
    monkeypatch.setattr("console.agent.living.MEMBERS_STARTING_S", 0.05)
    stranger = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    try:
        async with controlled(tmp_path) as rig_:
            await rig_.up(fake={"ignore_sigterm": True, "children": 2}, stop_timeout_s=0.3)
            await rig_.until(lambda: len(rig_.supervisor.record.members) == 3)
            pids = [one.pid for one in rig_.supervisor.record.members]
            done = await rig_.do("stop")
            assert done.state is OperationState.DONE
            assert "had to be killed" in done.message
            assert not any(lives(pid) for pid in pids)
            assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


async def test_orphans_of_a_killed_launcher_are_reported_and_ended_by_stop(tmp_path, monkeypatch):
    monkeypatch.setattr("console.agent.living.LEFTOVERS_S", 0.1)
    monkeypatch.setattr("console.agent.living.MEMBERS_STARTING_S", 0.05)
    async with controlled(tmp_path) as rig_:
        await rig_.up(fake={"orphans": 2})
        await rig_.until(lambda: len(rig_.supervisor.record.members) == 3)
        orphans = [one.pid for one in rig_.supervisor.record.members if one.pid != rig_.pid]
        os.kill(rig_.pid, signal.SIGKILL)
        await rig_.until(lambda: "2 of its processes are left" in rig_.engine.note)
        assert all(lives(pid) for pid in orphans)
        done = await rig_.do("stop")
        assert done.state is OperationState.DONE
        assert not any(lives(pid) for pid in orphans)


async def test_gpu_memory_that_stays_is_waited_for_and_told(tmp_path):
    async with controlled(tmp_path) as rig_:
        await rig_.up()
        rig_.measure.held = {rig_.pid: 3 << 30, 1: 9 << 30}
        done = await rig_.do("stop")
        assert done.state is OperationState.FAILED
        assert "3.0 GiB of GPU memory" in done.message
        assert rig_.engine.state is EngineState.STOPPED


async def test_a_silent_log_is_made_up_for_by_answers(tmp_path, monkeypatch):
    monkeypatch.setattr("console.agent.watch.ASK_PERIOD_S", 0.05)
    async with controlled(tmp_path) as rig_:
        await rig_.up(fake={"silent_log": True})
        assert rig_.engine.state is EngineState.READY


async def test_a_start_is_not_ready_before_its_first_token(tmp_path):
    async with controlled(tmp_path) as rig_:
        rig_.add(profile(fake={"first_token_s": 0.5}))
        await rig_.operator.start("launch", {"profile": "fake"}, "ann")
        await rig_.until(lambda: any(phase.name == "first_token" for phase in rig_.engine.phases))
        assert rig_.engine.state is EngineState.STARTING
        await rig_.operator.wait()
        assert rig_.engine.phases[-1].seconds >= 0.4


async def test_silence_of_the_http_server_is_busy_not_dead(tmp_path):
    async with controlled(tmp_path) as rig_:
        await rig_.up()
        rig_.measure.http_error = "/ping did not answer within 5 s"
        rig_.measure.http_answered_at_s = time.time()
        assert rig_.engine.state is EngineState.READY  # one failure is none
        rig_.supervisor._since_s = rig_.measure.http_answered_at_s = time.time() - 30
        assert rig_.engine.state is EngineState.BUSY
        assert "did not answer" in rig_.engine.note


async def test_a_clock_that_was_set_back_hides_no_silence(tmp_path):
    async with controlled(tmp_path) as rig_:
        await rig_.up()
        rig_.supervisor._since_s = time.time() + 3600  # ready, by the clock as it was
        rig_.measure.http_error = "/ping did not answer within 5 s"
        rig_.measure.http_answered_at_s = time.time()
        assert rig_.engine.state is EngineState.READY
        rig_.measure.http_answered_at_s = time.time() - 30
        assert rig_.engine.state is EngineState.BUSY


async def test_a_sigterm_from_elsewhere_is_told_as_such(tmp_path):
    async with controlled(tmp_path) as rig_:
        await rig_.up()
        os.kill(rig_.pid, signal.SIGTERM)
        await rig_.until(lambda: rig_.engine.state is EngineState.STOPPED)
        assert "not come from this console" in rig_.engine.note


# ------------------------------------------------------------------------------------------------- the next agent


async def successor(tmp_path):
    """The agent that comes after one that was killed."""
    made = Control(tmp_path)
    await made.supervisor.adopt()
    return made


async def abandon(control):
    """What is left of an agent after kill -9: nothing but its files and its engine."""
    await control.supervisor.close()


async def test_the_next_agent_adopts_the_engine_and_notices_its_end(tmp_path):
    async with controlled(tmp_path) as first:
        await first.up()
        pid = first.pid
        await abandon(first)
        second = await successor(tmp_path)
        try:
            assert (second.engine.state, second.pid) == (EngineState.READY, pid)
            assert "adopted the engine" in second.measure.events[-1].text
            assert second.measure.handles[-1].pid == pid
            assert [phase.name for phase in second.engine.phases] == [phase.name for phase in first.engine.phases]
            os.kill(pid, signal.SIGKILL)
            begun = time.monotonic()
            await second.until(lambda: second.engine.state is EngineState.DEAD)
            assert time.monotonic() - begun < 2.0
        finally:
            await second.close()


async def test_an_engine_that_was_starting_is_adopted_and_followed_to_ready(tmp_path):
    async with controlled(tmp_path) as first:
        first.add(profile(fake={"start_s": 0.6}))
        await first.operator.start("launch", {"profile": "fake"}, "ann")
        await first.until(lambda: first.engine.state is EngineState.STARTING)
        await first.operator.close()
        await abandon(first)
        second = await successor(tmp_path)
        try:
            assert second.engine.state is EngineState.STARTING
            await second.until(lambda: second.engine.state is EngineState.READY)
        finally:
            await second.close()


async def test_an_engine_whose_pid_was_not_written_down_is_found(tmp_path):
    async with controlled(tmp_path) as first:
        await first.up()
        pid = first.pid
        await abandon(first)
        forget(first.paths, lambda engine: engine.pop("identity"))
        second = await successor(tmp_path)
        try:
            assert second.pid == pid
        finally:
            await second.close()


def forget(paths, change):
    state = msgspec.json.decode(paths.state.read_bytes())
    change(state["engine"])
    paths.state.write_bytes(msgspec.json.encode(state))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda engine: engine["identity"].update(start_ticks=1), "another process now"),
        (lambda engine: engine["identity"].update(boot_id="another"), "booted since"),
        (lambda engine: engine["identity"].update(pid=2**22 - 3), "ended while no agent watched"),
    ],
    ids=["pid reused", "another boot", "gone"],
)
async def test_what_is_not_the_engine_is_neither_adopted_nor_signalled(tmp_path, change, why):
    async with controlled(tmp_path) as first:
        await first.up()
        pid = first.pid
        await abandon(first)
        before = first.paths.state.read_bytes()
        forget(first.paths, change)
        forget(first.paths, lambda engine: engine.pop("members", None))
        second = await successor(tmp_path)
        assert second.engine.state is EngineState.DEAD
        assert why in second.engine.note
        preview = await second.operator.preview("stop", {})
        assert preview.refused
        assert lives(pid)
        first.paths.state.write_bytes(before)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff\xfe", b'{"schema": 99}', b'{"engine": {"pid": 1}}'])
async def test_a_state_file_that_cannot_be_read_is_kept_aside_and_told(tmp_path, text):
    control = Control(tmp_path)
    control.paths.state.write_bytes(text)
    await control.supervisor.adopt()
    assert control.engine.state is EngineState.NONE
    assert "moved to" in control.measure.events[-1].text
    assert [path.read_bytes() for path in control.paths.dir.glob("state.json.unreadable-*")] == [text]


async def test_state_that_cannot_be_written_costs_the_adoption_only(tmp_path, monkeypatch):
    async with controlled(tmp_path) as rig_:

        def refuse(path, text):
            raise OSError(30, "Read-only file system")

        monkeypatch.setattr("console.agent.files.replace_text", refuse)
        rig_.add(profile())
        monkeypatch.setattr("console.agent.prepare.save_keys", lambda paths, keys: None)
        done = await rig_.do("launch", profile="fake")
        assert done.state is OperationState.DONE
        told = [event.text for event in rig_.measure.events if "Read-only" in event.text]
        assert len(told) == 1
        assert "will not find the engine" in told[0]


async def test_the_state_file_is_private_and_holds_what_a_successor_needs(tmp_path):
    async with controlled(tmp_path) as rig_:
        await rig_.up()
        assert rig_.paths.state.stat().st_mode & 0o777 == 0o600
        state = msgspec.json.decode(rig_.paths.state.read_bytes())
        assert state["schema"] == SCHEMA
        engine = state["engine"]
        assert engine["identity"]["boot_id"] == identity.boot_id()
        assert engine["by"] == "ann@pts/1"
        assert rig_.supervisor._keys.admin_key not in rig_.paths.state.read_text()


# ------------------------------------------------------------------------------------------------- foreign servers


async def test_attach_watches_and_refuses_to_stop(tmp_path):
    async with controlled(tmp_path) as owner:
        found = await owner.up()
        url = f"http://127.0.0.1:{found.engine.port}"
        await abandon(owner)
        owner.paths.state.unlink()
        async with controlled(tmp_path) as watcher:
            done = await watcher.do("attach", url=url)
            assert done.state is OperationState.DONE
            assert (watcher.engine.state, watcher.engine.attached) == (EngineState.READY, True)
            assert watcher.measure.handles[-1].url == url
            preview = await watcher.operator.preview("stop", {})
            assert "somebody else" in preview.refused
            watcher.measure.http_error = f"{url} cannot be reached - Connection refused"
            watcher.measure.http_answered_at_s = None
            assert watcher.engine.state is EngineState.UNREACHABLE
            await watcher.do("detach")
            assert watcher.engine.state is EngineState.NONE


async def test_an_attached_server_is_watched_by_the_next_agent_too(tmp_path):
    async with controlled(tmp_path) as owner:
        found = await owner.up()
        url = f"http://127.0.0.1:{found.engine.port}"
        owner.paths.state.unlink()
        async with controlled(tmp_path) as watcher:
            await watcher.do("attach", url=url)
            second = await successor(tmp_path)
            assert second.engine.url == url
            assert isinstance(second.engine, rig.Engine)


async def test_the_newest_logs_are_kept(tmp_path):
    async with controlled(tmp_path) as rig_:
        for number in range(25):
            (rig_.paths.logs / f"20200101-0000{number:02}-old.log").touch()
        await rig_.up()
        kept = sorted(path.name for path in rig_.paths.logs.glob("*.log"))
        assert len(kept) == 20
        assert kept[0] == "20200101-000006-old.log"
