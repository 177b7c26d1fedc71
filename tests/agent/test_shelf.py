"""The drafters' list and the downloads, through the agent's routes and its client."""

import asyncio
import dataclasses
import json
import os
import threading
import time
from pathlib import Path

import msgspec
import pytest

from console import rig
from console.agent import guarded, pulls
from console.agent.client import AgentClient, AgentError
from console.agent.guarded import Guarded
from console.agent.handle import Handle
from console.agent.pulls import Pulls
from console.agent.records import Record, Records
from console.agent.shelf import Shelf
from console.drafters import catalogue
from console.errors import ConsoleError
from profiles.schema import EngineSection, Profile, Speculation
from tests.agent.control import controlled
from tests.drafters import build
from tests.drafters.build import config, folder, target
from tests.drafters.hub_server import Repo
from tests.drafters.test_hub import NAME, hub  # noqa: F401 - a fixture
from tests.drafters.test_server_target import server  # noqa: F401 - a fixture


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLANG_CONSOLE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))


# ------------------------------------------------------------------------------------------------- the list


@dataclasses.dataclass
class Shelves:
    shelf: Shelf
    engine: rig.Engine
    profile: Profile
    records: Records


@pytest.fixture
def shelves(tmp_path, server):  # noqa: F811 - the fixture
    running = folder(tmp_path / "running", base_model="org/Tiny-1")
    bad = folder(tmp_path / "bad", config(hidden_size=128, num_attention_heads=8))
    server.info = {
        "model_path": str(target(tmp_path / "target")), "served_model_name": "org/Tiny-1", "tp_size": 1, "version": "0.5.23",
        "speculative_algorithm": "EAGLE3", "speculative_draft_model_path": str(running),
    }  # fmt: skip
    profile = Profile(
        name="p",
        engine=EngineSection(model="m"),
        speculation=Speculation(algorithm="EAGLE3", drafter=str(running), drafters=(str(bad), "org/missing")),
    )
    engine = rig.Engine(state=rig.EngineState.READY, drafter=str(running), algorithm="EAGLE3", pid=7, started_at_s=1.0)
    made = Shelves(None, engine, profile, Records(tmp_path))
    made.shelf = Shelf(
        lambda: rig.Snapshot(engine=made.engine), lambda: Handle(server.url), lambda: made.profile, made.records
    )
    return made


def test_the_list_has_verdicts_records_and_the_running_one_first(shelves, tmp_path):
    shelves.records.add(str(tmp_path / "running"), Record(at_s=5.0, accept_len=2.0, tok_s=60.0, outcome="kept"))
    found = shelves.shelf.drafters()
    assert [(item.name.rsplit("/", 1)[-1], item.verdict, item.running) for item in found.items] == [
        ("running", "same", True),
        ("bad", "incompatible", False),
        ("missing", "", False),
    ]
    assert all(item.listed for item in found.items)
    assert found.items[0].record.best.tok_s == 60.0
    assert (found.items[0].licence, found.items[0].base_models) == ("mit", ("org/Tiny-1",))
    assert "(C3)" in found.items[1].why
    assert "pull it" in found.items[2].why
    assert found.target.startswith("http://127.0.0.1")


def test_nothing_is_judged_twice_until_a_file_changes(shelves, tmp_path, server, monkeypatch):  # noqa: F811
    judged = []
    real = catalogue.catalogue
    monkeypatch.setattr(catalogue, "catalogue", lambda names, **how: judged.append(names) or real(names, **how))
    shelves.shelf.drafters()
    asked = len(server.asked)
    shelves.shelf.drafters()
    assert (len(judged), len(server.asked)) == (1, asked)
    os.utime(tmp_path / "bad" / "config.json", (1, 1))
    shelves.shelf.drafters()
    assert (len(judged), len(server.asked)) == (2, asked)
    shelves.engine = msgspec.structs.replace(shelves.engine, pid=8)
    shelves.shelf.drafters()
    assert len(server.asked) > asked


def test_drafters_in_the_cache_are_found(shelves, tmp_path):
    commit = "a" * 40
    folder(tmp_path / "cache" / "models--org--cached" / "snapshots" / commit)
    item = shelves.shelf.drafters().items[-1]
    assert (item.name, item.revision, item.listed, item.verdict) == ("org/cached", commit, False, "online-swap")


def test_folders_beside_and_inside_are_found_when_they_hold_drafters(shelves, tmp_path):
    folder(tmp_path / "running" / "epoch_2")
    folder(tmp_path / "beside", base_model="org/Tiny-1")
    found = {item.name.removeprefix(f"{tmp_path}/"): item for item in shelves.shelf.drafters().items}
    assert set(found) == {"running", "bad", "org/missing", "beside", "running/epoch_2"}  # the target is no drafter
    assert (found["beside"].listed, found["beside"].verdict) == (False, "online-swap")


def test_after_a_live_swap_the_new_drafter_is_the_running_one(shelves, tmp_path):
    new = folder(tmp_path / "new")
    shelves.engine = msgspec.structs.replace(shelves.engine, drafter=str(new))
    assert shelves.shelf.check(str(new))["verdict"] == "same"
    assert shelves.shelf.drafters().items[0].name == str(new)


def test_without_an_engine_everything_is_unknown_and_says_so(shelves):
    shelves.engine = rig.Engine()
    found = shelves.shelf.drafters()
    assert "no engine answers" in found.note
    assert {item.verdict for item in found.items if item.path} == {"unknown"}


def test_a_server_that_says_no_costs_the_target_only(shelves, server):  # noqa: F811
    server.status = 500
    assert "answered 500" in shelves.shelf.drafters().note
    server.status = 200
    assert shelves.shelf.drafters().note == ""


def test_simulated_drafters_have_no_files(shelves):
    shelves.profile = Profile(
        name="s", engine=EngineSection(model="m"), speculation=Speculation(drafter="sim/a", drafters=("sim/a", "sim/b"))
    )
    shelves.engine = msgspec.structs.replace(shelves.engine, drafter="sim/b")
    names = [(item.name, item.verdict, item.running) for item in shelves.shelf.drafters().items if item.listed]
    assert names == [("sim/b", "simulated", True), ("sim/a", "simulated", False)]
    assert shelves.shelf.check("sim/a")["verdict"] == "simulated"


def test_one_in_full(shelves, tmp_path):
    answer = shelves.shelf.check(str(tmp_path / "bad"))
    assert answer["verdict"] == "incompatible"
    assert any(check["id"] == "C3" and check["reference"] == 64 for check in answer["checks"])
    assert {file["name"] for file in answer["drafter"]["files"]} == {"config.json", "model.safetensors"}
    assert answer["comparison"]["relation"] == "not comparable"


# ------------------------------------------------------------------------------------------------- downloads


@pytest.fixture
def repo(hub):  # noqa: F811
    path = hub.url  # the stand-in listens
    assert path
    head, size, _ = build.header_bytes(build.tensors_of(config()))
    content = head + os.urandom(size) + b""
    hub.repos[NAME] = Repo({"config.json": json.dumps(config()).encode(), "model.safetensors": content,
                            "training_state.pt": b"x" * 100})  # fmt: skip
    return hub.repos[NAME]


def until(condition, timeout_s=10.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_pull_is_a_job_with_progress_and_an_end(hub, repo):  # noqa: F811
    told = []
    jobs = Pulls(lambda level, text: told.append((level, text)))
    begun = jobs.start(NAME, by="ann\x1b[31m")
    assert (begun.state, begun.by.isprintable()) == ("running", True)
    until(lambda: jobs.all()[0].state != "running")
    done = jobs.all()[0]
    assert done.state == "done", done.message
    assert (done.bytes_done, done.revision, done.skipped) == (done.bytes_total, repo.sha, ("training_state.pt",))
    assert (Path(done.path) / "model.safetensors").exists()
    assert told == [("info", f"pull of {NAME} done: {done.message}")]


def test_cancel_keeps_what_came_and_a_second_pull_goes_on(hub, repo):  # noqa: F811
    repo.files["model.safetensors"] += os.urandom(3 << 20)
    hub.delay_s = 0.05
    jobs = Pulls()
    begun = jobs.start(NAME)
    until(lambda: jobs.all()[0].bytes_done > 200_000)
    assert jobs.all()[0].rate_bytes_s > 0
    assert jobs.all()[0].eta_s > 0
    with pytest.raises(ConsoleError, match="being pulled already"):
        jobs.start(f"{NAME}@main")
    jobs.cancel(begun.id)
    until(lambda: jobs.all()[0].state == "cancelled")
    with pytest.raises(ConsoleError, match="no such pull"):
        jobs.cancel(begun.id)
    hub.delay_s, sent = 0.0, hub.bytes_sent
    jobs.start(NAME)
    until(lambda: jobs.all()[-1].state == "done")
    assert hub.bytes_sent - sent < len(repo.files["model.safetensors"]) - 150_000


@pytest.mark.parametrize(("name", "words"), [("org/none", "was not found"), (f"{NAME}@nope", "has no revision")])
def test_what_goes_wrong_is_the_jobs_message(hub, repo, name, words):  # noqa: F811
    told = []
    jobs = Pulls(lambda level, _text: told.append(level))
    jobs.start(name)
    until(lambda: jobs.all()[0].state == "failed")
    assert words in jobs.all()[0].message
    until(lambda: told == ["warn"])


def test_the_agents_end_stops_pulls(hub, repo):  # noqa: F811
    repo.files["model.safetensors"] += os.urandom(3 << 20)
    hub.delay_s = 0.05
    jobs = Pulls()
    jobs.start(NAME)
    until(lambda: jobs.all()[0].bytes_done > 100_000)
    begun = time.monotonic()
    jobs.close()
    assert time.monotonic() - begun < 3
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("pull ")]


def test_few_at_once_and_old_ones_are_forgotten(monkeypatch):
    gate = threading.Event()
    monkeypatch.setattr(Pulls, "_fetch", lambda self, pull, *, everything: gate.wait(5) and "/x")
    jobs = Pulls()
    for number in range(pulls.MOST_AT_ONCE):
        jobs.start(f"org/d{number}")
    with pytest.raises(ConsoleError, match="org/d0, org/d1 are being pulled"):
        jobs.start("org/one-more")
    gate.set()
    for number in range(pulls.KEPT + 5):
        until(lambda: all(pull.state == "done" for pull in jobs.all()))
        jobs.start(f"org/e{number}")
    assert len(jobs.all()) <= pulls.KEPT + 1
    with pytest.raises(ConsoleError, match="is no hub repository"):
        jobs.start("../etc/passwd")
    jobs.close()


# ------------------------------------------------------------------------------------------------- the routes


async def test_routes(tmp_path, hub, repo):  # noqa: F811
    async with controlled(tmp_path) as control:
        listening = asyncio.Event()
        task = asyncio.create_task(control.daemon.serve(control.paths.socket, listening=listening.set))
        await listening.wait()
        client = AgentClient(control.paths)

        async def ask(call, *args, **how):
            return await asyncio.to_thread(call, *args, **how)

        assert "no engine answers" in (await ask(client.drafters)).note
        drafter = folder(tmp_path / "d")
        assert (await ask(client.check_drafter, str(drafter)))["verdict"] == "unknown"
        with pytest.raises(AgentError, match="no such drafter"):
            await ask(client.check_drafter, "/nowhere")
        begun = await ask(client.pull, NAME)
        assert begun.repository == NAME
        await control.until(lambda: control.daemon.pulls.all()[0].state == "done", 10.0)
        (done,) = await ask(client.pulls)
        assert done.state == "done"
        with pytest.raises(AgentError) as caught:
            await ask(client.cancel_pull, done.id)
        assert caught.value.status == 422
        for body in ({}, {"repository": 3}, {"repository": "x"}):
            with pytest.raises(AgentError) as caught:
                await ask(client._ask, "POST", "/v1/pulls", body)
            assert caught.value.status == 422
        await control.until(lambda: any("pull of" in event.text for event in control.measure.events))
        control.daemon.stop()
        await task


async def test_what_serves_under_load_leaves_a_record(tmp_path, monkeypatch):
    monkeypatch.setattr(guarded, "OBSERVED_S", 0.3)
    records = Records(tmp_path)

    def sample():
        now = time.time()
        return rig.Snapshot(
            at_s=now,
            engine=rig.Engine(state=rig.EngineState.READY, algorithm="EAGLE3", drafter="org/a", pid=1, profile="p"),
            acceptance=rig.Acceptance(accept_len=rig.Figure(2.5, rig.Source.PROBE, now)),
            load=rig.Load(running=rig.Figure(1.0, rig.Source.LOADS, now)),
        )

    task = asyncio.create_task(Guarded(sample, records).observe())
    async with asyncio.timeout(5):
        while not records.read():
            await asyncio.sleep(0.05)
    task.cancel()
    (kept,) = records.read()["org/a"]
    assert (kept.outcome, kept.accept_len, kept.profile) == ("served", 2.5, "p")
