"""``console doctor``: in a bare container, on a GPU box, on a box with one thing wrong."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from console.commands.doctor import command
from console.doctor import checkup, engine, gpus, places, terminal
from console.doctor.finding import Status, fail, ok, size_text, warn
from console.errors import ConsoleError
from profiles.schema import EngineSection, Profile

pytest_plugins = ("tests.fake_nvml",)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLANG_CONSOLE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def sglang(monkeypatch):
    """An SGLang that is found."""
    from console.engine import locate
    from console.engine.locate import Installation

    found = Installation("/opt/sglang/bin/python", (0, 5, 23), "0.5.23", Path("/opt/sglang/lib/sglang"))
    monkeypatch.setattr(locate, "locate", lambda profile: found)
    return found


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def profile():
    return Profile(name="mine", engine=EngineSection(port=free_port()))


def by_id(findings):
    return {finding.id: finding for finding in findings}


def run(arguments=(), **environment):
    return CliRunner().invoke(command, list(arguments), env=environment)


# ------------------------------------------------------------------------------------- the command


def test_a_bare_container():
    """No SGLang, no driver, no terminal: findings, exit code 4, no traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "console", "doctor", "--json"],
        env={"PATH": "/usr/bin:/bin", "SGLANG_CONSOLE_HOME": os.environ["SGLANG_CONSOLE_HOME"], "LC_ALL": "C"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    answer = json.loads(done.stdout)
    assert done.returncode == 4
    assert answer["healthy"] is False
    found = {entry["id"]: entry for entry in answer["findings"]}
    assert found["sglang"]["status"] == "fail"
    assert found["gpu"]["status"] == "fail"
    assert found["terminal"]["status"] == "warn"
    assert all(entry["todo"] for entry in found.values() if entry["status"] != "ok")
    assert all("\n" not in entry["message"] + entry["todo"] for entry in found.values())


def test_a_healthy_gpu_box(fake_nvml, sglang, monkeypatch, profile):
    monkeypatch.setattr("console.commands.doctor.load_profile", lambda name: profile)
    done = run(["--json"], TERM="xterm-256color", FAKE_NVML_GPUS="8")
    answer = json.loads(done.stdout)
    failed = [entry for entry in answer["findings"] if entry["status"] == "fail"]
    assert failed == []
    assert (done.exit_code, answer["healthy"], answer["profile"]) == (0, True, "mine")
    found = {entry["id"]: entry for entry in answer["findings"]}
    assert found["gpu"]["message"] == "driver 580.82.07: 8 x NVIDIA H200"
    assert found["gpu-calls"]["data"]["utilisation"]["calls"] >= 8
    assert found["sglang"]["data"]["version"] == "0.5.23"


def test_the_text_is_one_line_a_finding(fake_nvml, sglang, monkeypatch, profile):
    monkeypatch.setattr("console.commands.doctor.load_profile", lambda name: profile)
    done = run(NO_COLOR="1")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert all(line.startswith(("ok   ", "WARN ")) for line in lines)
    assert any("driver 580.82.07" in line for line in lines)
    assert done.stderr == "nothing here would prevent a launch\n"


def test_a_check_that_fails_itself_stops_no_other(monkeypatch, profile):
    def broken():
        raise RuntimeError("boom")

    monkeypatch.setattr(terminal, "check", broken)
    found = by_id(checkup.checkup(profile))
    assert "boom" in found["terminal"].message
    assert found["terminal"].status is Status.WARN
    assert "port" in found


def test_an_ascii_locale_gets_ascii():
    done = subprocess.run(
        [sys.executable, "-c", CAFE],
        env={"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        timeout=30,
        check=True,
    )
    assert b"caf\\xe9" in done.stdout


CAFE = """
import click
from console.commands.doctor import line
from console.doctor.finding import ok
click.echo(line(ok("x", "caf\\u00e9")))
"""


# -------------------------------------------------------------------------------------------- SGLang


def test_sglang_missing_old_and_simulated(monkeypatch, profile):
    from console.engine import locate

    def missing(profile):
        raise ConsoleError("no SGLang found", why="asked /usr/bin/python3", todo="name the interpreter")

    monkeypatch.setattr(locate, "locate", missing)
    found = engine.check_sglang(profile)
    assert (found.status, found.message) == (Status.FAIL, "no SGLang found (asked /usr/bin/python3)")
    old = locate.Installation("python", (0, 5, 6), "0.5.6", Path("/x"))
    monkeypatch.setattr(locate, "locate", lambda profile: old)
    assert engine.check_sglang(profile).status is Status.WARN
    simulated = locate.Installation("python", None, "simulated", None, simulated=True)
    monkeypatch.setattr(locate, "locate", lambda profile: simulated)
    assert engine.check_sglang(profile).status is Status.OK


def test_what_the_probe_will_find_is_read_from_the_source(monkeypatch, profile, tmp_path):
    from console.engine import capability, locate

    here = locate.Installation("python", (0, 5, 23), "0.5.23", tmp_path)
    monkeypatch.setattr(locate, "locate", lambda profile: here)
    whole = {target: list(wanted) for need in capability.NEEDS for target, wanted in need.alternatives[0].items()}
    monkeypatch.setattr(capability, "read_signatures", lambda package: whole)
    (found,) = engine.check_probe(profile)
    assert (found.id, found.status) == ("probe", Status.OK)
    assert found.data["hooks"]["live swap"] == "there"
    monkeypatch.setattr(
        capability, "read_signatures", lambda package: {**whole, f"{capability.LLAMA}.load_weights": None}
    )
    (found,) = engine.check_probe(profile)
    assert found.status is Status.WARN
    assert "no LlamaForCausalLMEagle3.load_weights" in found.message
    assert found.todo == "drafter will change by restart"
    assert (found.data["depth_live"], found.data["swap_live"]) == (True, False)
    old = locate.Installation("python", (0, 5, 6), "0.5.6", tmp_path)
    monkeypatch.setattr(locate, "locate", lambda profile: old)
    assert list(engine.check_probe(profile)) == []


def test_broken_profiles_are_named(home):
    (found,) = engine.check_profiles()
    assert (found.status, found.id) == (Status.OK, "profiles")
    folder = home / "config" / "profiles"
    folder.mkdir(parents=True)
    (folder / "broken.toml").write_text("name = [")
    (found,) = engine.check_profiles()
    assert found.status is Status.WARN
    assert "broken.toml" in found.message + found.todo


def test_a_profile_is_found_by_name_and_its_port_is_checked(home, sglang):
    folder = home / "config" / "profiles"
    folder.mkdir(parents=True)
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        text = f'name = "mine"\n[engine]\nport = {port}\nargs = ["--device", "cpu"]\n'
        (folder / "mine.toml").write_text(text)
        done = run(["--profile", "mine", "--json"])
    assert done.exit_code == 4
    found = {entry["id"]: entry for entry in json.loads(done.stdout)["findings"]}
    assert found["port"]["status"] == "fail"
    assert found["gpu"]["status"] != "fail"


def test_an_unknown_profile_is_wrong_usage():
    done = run(["--profile", "nothing-like-it"])
    assert isinstance(done.exception, ConsoleError)


@pytest.mark.parametrize(
    ("section", "needed"),
    [
        (EngineSection(), True),
        (EngineSection(args=("--device", "cpu")), False),
        (EngineSection(args=("--tp", "2", "--device=cpu")), False),
        (EngineSection(args=("--device", "cuda", "--model-path", "cpu")), True),
        (EngineSection(simulated=True), False),
        (EngineSection(module="console.simulate"), False),
    ],
)
def test_whether_a_launch_needs_a_gpu(section, needed):
    assert engine.needs_gpu(Profile(name="x", engine=section)) is needed


# ----------------------------------------------------------------------------------------------- GPUs


def test_driver_that_does_not_fit(fake_nvml):
    fake_nvml.set(init=18)
    (found,) = gpus.check()
    assert found.status is Status.FAIL
    assert found.todo == "driver and library differ in version: reload the driver or reboot"
    (found,) = gpus.check(needed=False)
    assert found.status is Status.WARN


def test_a_lost_gpu_and_what_is_not_supported(fake_nvml):
    fake_nvml.set(faults="*:3:15:12,nvmlDeviceGetPowerUsage:*:3:0")
    found = by_id(gpus.check())
    assert found["gpu"].status is Status.WARN
    assert "GPU 3 is lost" in found["gpu"].message
    assert found["gpu-cells"].data["missing"] == ["power_w: not supported"]


def test_unlike_cards(fake_nvml, monkeypatch):
    from console import rig

    cards = (rig.Gpu(0, name="NVIDIA H200", uuid="a"), rig.Gpu(1, name="NVIDIA H100", uuid="b"))
    found = gpus._cards((cards, "", "580"), needed=True)
    assert (found.status, found.message) == (Status.WARN, "driver 580: 1 x NVIDIA H200, 1 x NVIDIA H100")


def test_a_driver_that_hangs_does_not_hang_the_doctor(fake_nvml):
    fake_nvml.set(gpus=1, faults="nvmlDeviceGetTemperature:0:999:0:1500")
    started = time.monotonic()
    (found,) = gpus.check(timeout_s=0.2)
    assert time.monotonic() - started < 1.0
    assert found.status is Status.FAIL
    assert "temperature of GPU 0" in found.message
    time.sleep(1.4)  # the thread must be done before the library is put away


def test_a_slow_driver_is_told(fake_nvml):
    fake_nvml.set(gpus=1, faults="nvmlDeviceGetUtilizationRates:0:999:0:120")
    assert by_id(gpus.check())["gpu-calls"].status is Status.WARN


# ------------------------------------------------------------------------------------------- terminal


@pytest.mark.parametrize(
    ("variables", "shown"),
    [
        ({"TERM": "xterm-256color"}, "256"),
        ({"TERM": "tmux-256color", "COLORTERM": "truecolor"}, "16 million"),
        ({"TERM": "screen"}, "16"),
        ({"TERM": "dumb"}, "none"),
        ({}, "none"),
        ({"TERM": "xterm-direct"}, "16 million"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "none (NO_COLOR)"),
    ],
)
def test_colours(variables, shown):
    assert terminal.colours(variables) == shown


def test_terminal_findings(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "10")
    found = by_id(terminal.check({"TERM": "dumb", "SSH_CONNECTION": "1 2 3 4"}))
    assert found["terminal"].status is Status.WARN
    assert (found["size"].status, found["size"].data) == (Status.WARN, {"columns": 40, "lines": 10})
    assert found["session"].data == {"multiplexer": "", "ssh": True}
    assert by_id(terminal.check({"TMUX": "/tmp/x"}))["session"].data["multiplexer"] == "tmux"


# --------------------------------------------------------------------------------------------- places


def test_a_taken_port_names_who_has_it():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        found = places.check_port("127.0.0.1", port, profile="mine")
        assert found.status is Status.FAIL
        assert found.message == f"port {port} of profile mine is taken by pid {os.getpid()}"
    assert places.check_port("127.0.0.1", port, profile="mine").status is Status.OK


def test_a_host_that_is_not_here():
    found = places.check_port("192.0.2.1", 30000, profile="")
    assert found.status is Status.FAIL
    assert "cannot be bound" in found.message


@pytest.mark.parametrize(("free", "status"), [(5 << 30, Status.OK), (500 << 20, Status.WARN), (10 << 20, Status.FAIL)])
def test_space(monkeypatch, free, status):
    monkeypatch.setattr(places.shutil, "disk_usage", lambda place: type("Usage", (), {"free": free}))
    found = places.space("state folder", "disk-state", Path("/nowhere/at/all"), warn_bytes=1 << 30, fail_bytes=20 << 20)
    assert found.status is status
    assert found.data["free_bytes"] == free


def test_a_real_small_disk():
    """/dev/shm and the like answer; a folder that does not exist is looked at where it would be made."""
    assert places.existing(Path("/nowhere/at/all")) == Path("/")
    assert {finding.id for finding in places.check_space()} == {"disk-state", "disk-cache", "disk-shm"}


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}, "/a"),
        ({"HF_HOME": "/b"}, "/b/hub"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub"),
    ],
)
def test_the_hubs_cache(variables, folder):
    assert places.hub_cache(variables) == Path(folder)


def test_permissions(home, monkeypatch):
    assert by_id(places.check_permissions())["permissions"].status is Status.OK
    monkeypatch.setattr(places.os, "access", lambda *_: False)
    assert by_id(places.check_permissions())["permissions"].status is Status.FAIL
    monkeypatch.undo()
    monkeypatch.setattr(places.resource, "getrlimit", lambda _: (1024, 1 << 20))
    found = by_id(places.check_permissions())["open-files"]
    assert (found.status, found.todo.partition(":")[0]) == (Status.WARN, "ulimit -n 65536")


def test_findings():
    assert checkup.is_healthy([ok("a", ""), warn("b", "", "")])
    assert not checkup.is_healthy([ok("a", ""), fail("c", "", "")])
    assert size_text(0) == "0 B"
    assert size_text(1.5 * (1 << 30)) == "1.5 GiB"
    assert size_text(3 << 40) == "3.0 TiB"
