"""Check and pull against the hub's real routes on a local stand-in."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from console.drafters import download
from console.drafters.check import check
from console.drafters.verdict import Verdict
from console.errors import ConsoleError
from tests.drafters import build
from tests.drafters.build import config, folder, target
from tests.drafters.hub_server import Hub, Repo, serve

NAME = "org/drafter"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    state = Hub()
    server = serve(state)
    from huggingface_hub import constants

    for module_value in ("ENDPOINT",):
        monkeypatch.setattr(constants, module_value, state.url)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", state.url + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 5)
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1 << 16)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("HF_ENDPOINT", state.url)
    monkeypatch.setattr("huggingface_hub.hf_api.HfApi.__init__", _init_for(state.url))
    quick = SimpleNamespace(**{**vars(time), "sleep": lambda _: None})
    monkeypatch.setattr("huggingface_hub.file_download.time", quick)
    yield state
    server.shutdown()
    server.server_close()


def _init_for(url):
    from huggingface_hub import HfApi

    original = HfApi.__init__

    def init(self, endpoint=None, **options):
        original(self, endpoint=endpoint or url, **options)

    return init


def files_of(path: Path) -> dict[str, bytes]:
    return {item.name: item.read_bytes() for item in path.iterdir() if item.is_file()}


@pytest.fixture
def repo(hub, tmp_path):
    big = config(hidden_size=256, intermediate_size=2048, num_attention_heads=16)  # 4 MB
    drafter = folder(tmp_path / "upload", big, base_model="org/Tiny-1")
    content = files_of(drafter)
    content["model.safetensors"] = content["model.safetensors"][:-1] + b"\x07"
    content["training_state.pt"] = b"\x80\x02" * 5000
    content["pytorch_model.bin"] = b"\x80\x02" * 100
    hub.repos[NAME] = Repo(content, card={"base_model": "org/Tiny-1", "license": "mit"})
    return hub.repos[NAME]


@pytest.fixture
def goal(tmp_path):
    return str(target(tmp_path / "t", config(build.TARGET, hidden_size=256)))


def test_header_only_check_moves_little(hub, repo, goal):
    judgement, subject = check(NAME, target=goal)
    assert judgement.verdict is Verdict.RESTART, judgement.why
    assert hub.bytes_sent < 100_000
    assert len(repo.files["model.safetensors"]) > 1_000_000
    assert subject.drafter.revision == repo.sha
    assert next(item for item in judgement.checks if item.id == "C23").ok is False
    assert next(item for item in judgement.checks if item.id == "C19").ok is True
    pinned, _ = check(f"{NAME}@{repo.sha}", target=goal)
    assert next(item for item in pinned.checks if item.id == "C23").ok is True


@pytest.mark.parametrize(
    ("make", "token", "words"),
    [
        (lambda hub: hub.repos[NAME].__setattr__("gated", True), "", "no valid token"),
        (lambda hub: hub.repos[NAME].__setattr__("gated", True), "hf_mine", "your token has no access"),
        (lambda hub: hub.repos[NAME].__setattr__("private", True), "", "private and no token"),
        (lambda hub: hub.repos.pop(NAME), "hf_mine", "no such repository"),
        (lambda hub: setattr(hub, "status", 503), "", "answered 503"),
        (lambda hub: setattr(hub, "status", 403), "", "403"),
    ],
)
def test_each_refusal_has_its_own_line_and_no_token(hub, repo, goal, monkeypatch, make, token, words):
    make(hub)
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(ConsoleError) as caught:
        check(NAME, target=goal)
    assert words in caught.value.line
    assert "\n" not in caught.value.line
    assert "hf_mine" not in caught.value.line


def test_no_such_revision(hub, repo, goal):
    with pytest.raises(ConsoleError, match="no revision 'v9'"):
        check(f"{NAME}@v9", target=goal)


def test_nobody_listens(hub, repo, goal, monkeypatch):
    monkeypatch.setattr("huggingface_hub.hf_api.HfApi.__init__", _init_for("http://127.0.0.1:9"))
    with pytest.raises(ConsoleError, match="cannot reach the hub"):
        check(NAME, target=goal)


def test_pull_brings_what_serving_needs_and_proves_it(hub, repo, goal):
    plan = download.plan_pull(NAME)
    assert set(plan.skipped) == {"training_state.pt", "pytorch_model.bin"}
    seen = []
    path = download.pull(plan, seen.append)
    assert {item.name for item in path.iterdir()} == {"config.json", "model.safetensors", "README.md"}
    assert (path / "model.safetensors").read_bytes() == repo.files["model.safetensors"]
    assert seen[-1].bytes_done == seen[-1].bytes_total == plan.bytes_total
    assert check(str(path), target=goal)[0].verdict is Verdict.RESTART
    again = download.plan_pull(NAME)
    assert again.bytes_to_fetch == 0
    sent = hub.bytes_sent
    download.pull(again)
    assert hub.bytes_sent - sent < 10_000


def test_everything_on_request(hub, repo):
    path = download.pull(download.plan_pull(NAME, everything=True))
    assert (path / "training_state.pt").exists()


def test_lost_connection_goes_on_where_it_stopped(hub, repo):
    hub.cut_after = 600_000
    path = download.pull(download.plan_pull(NAME))
    assert (path / "model.safetensors").read_bytes() == repo.files["model.safetensors"]
    assert any(wanted.startswith("bytes=") for _, route, wanted in hub.requests if "model.safetensors" in route)


def test_cancel_keeps_what_came_and_resumes(hub, repo):
    cancel = threading.Event()
    hub.delay_s = 0.01
    with pytest.raises(download.PullCancelledError):
        download.pull(download.plan_pull(NAME), lambda progress: progress.bytes_done > 300_000 and cancel.set(), cancel)
    hub.delay_s = 0
    plan = download.plan_pull(NAME)
    assert 0 < plan.bytes_to_fetch < plan.bytes_total
    path = download.pull(plan)
    assert (path / "model.safetensors").read_bytes() == repo.files["model.safetensors"]


@pytest.mark.parametrize("garbage", [b"<html>please log in</html>", b"short"])
def test_html_or_garbage_is_not_called_a_drafter(hub, repo, garbage):
    hub.garbage = garbage
    with pytest.raises(ConsoleError) as caught:
        download.pull(download.plan_pull(NAME))
    assert "\n" not in caught.value.line


def test_same_size_other_content_is_found_and_removed(hub, repo):
    content = repo.files["model.safetensors"]
    plan = download.plan_pull(NAME)
    hub.garbage = b"\0" * len(content)
    wanted = next(file for file in plan.files if file.name == "model.safetensors")
    only = download.msgspec.structs.replace(plan, files=(wanted,))
    with pytest.raises(ConsoleError, match="not what the hub announced"):
        download.pull(only)
    assert not plan.partial(wanted).exists()
    assert not plan.blob(wanted).exists()


def test_too_little_room_is_said_before_a_byte_is_written(hub, repo, monkeypatch, tmp_path):
    monkeypatch.setattr(download.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1000})())
    with pytest.raises(ConsoleError, match="not enough room"):
        download.pull(download.plan_pull(NAME))
    assert not (tmp_path / "cache").exists()


def test_disk_full_in_the_middle(hub, repo, monkeypatch):
    def full(*_args, **_options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("huggingface_hub.file_download.http_get", full)
    with pytest.raises(ConsoleError, match="disk is full"):
        download.pull(download.plan_pull(NAME))


def test_two_pulls_of_one_repository(hub, repo):
    plan = download.plan_pull(NAME)
    (plan.folder / "blobs").mkdir(parents=True)
    with download._alone(plan.folder / "blobs" / ".pull.lock", plan), pytest.raises(ConsoleError, match="already"):
        download.pull(plan)


def test_kill_minus_nine_then_resume(hub, repo, tmp_path):
    """A whole process is killed in the middle; the next one goes on and the file is right."""
    large = build.config(hidden_size=256, intermediate_size=16384, num_attention_heads=16)
    repo.files["model.safetensors"] = files_of(folder(tmp_path / "large", large))["model.safetensors"]
    hub.delay_s = 0.01
    environment = os.environ | {
        "HF_ENDPOINT": hub.url,
        "HF_HUB_CACHE": str(tmp_path / "cache"),
        "HF_HUB_DISABLE_XET": "1",
    }
    command = [sys.executable, "-m", "console", "pull", NAME]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    before, deadline = 0, time.monotonic() + 30
    while time.monotonic() < deadline and before == 0:
        before = sum(path.stat().st_size for path in (tmp_path / "cache").rglob("*.partial"))
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = sum(path.stat().st_size for path in (tmp_path / "cache").rglob("*.partial"))
    assert 0 < before < len(repo.files["model.safetensors"])
    hub.delay_s, hub.requests[:] = 0, []
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert (Path(done.stdout.strip()) / "model.safetensors").read_bytes() == repo.files["model.safetensors"]
    resumed = [wanted for method, route, wanted in hub.requests if method == "GET" and "model.safetensors" in route]
    assert resumed == [f"bytes={before}-"]


def test_main_moves_and_a_plain_name_means_the_newest(hub, repo):
    download.pull(download.plan_pull(NAME))
    hub.repos[NAME].sha = "beef" * 10
    hub.repos[NAME].files["config.json"] += b"\n"
    download.pull(download.plan_pull(NAME))
    folder_ = download.plan_pull(NAME).folder
    assert (folder_ / "refs" / "main").read_text() == "beef" * 10
    hub.repos[NAME].sha = "c0de" * 10
    download.pull(download.plan_pull(NAME, "c0de" * 10))
    assert (folder_ / "refs" / "main").read_text() == "beef" * 10


@pytest.mark.parametrize("revision", ["../../../outside", "a/../../b"])
def test_a_revision_cannot_leave_the_cache(hub, repo, revision, monkeypatch):
    from huggingface_hub import HfApi

    real = HfApi.model_info
    monkeypatch.setattr(HfApi, "model_info", lambda self, name, **how: real(self, name, **how | {"revision": None}))
    with pytest.raises(ConsoleError, match="is no revision"):
        download.plan_pull(NAME, revision)
