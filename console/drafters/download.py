"""Brings a drafter into the hub cache: free space first, resumable across kills, every byte proven before it is called done.

The files land where huggingface_hub itself looks (``models--org--name/blobs|snapshots|refs``), so SGLang finds them by
repository name. huggingface_hub 2 starts a plain HTTP download anew in every process; the partial file kept here, beside the
blob it will become, makes a second pull go on where a killed one stopped. Xet-backed files go through hf-xet and its cache.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import importlib.util
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from console.drafters.header import gigabytes
from console.drafters.hub import hub_error
from console.drafters.source import COMMIT
from console.drafters.weights import SKIPPED
from console.errors import ConsoleError, ExitCode

SPARE_SHARE = 0.05
"""Room asked for beyond the download itself."""
HASH_CHUNK_BYTES = 4 << 20
PIECE_BYTES = 1 << 20
"""huggingface_hub's own 10 MB are ten seconds of a slow line, in which nobody sees progress or can cancel."""


class Wanted(msgspec.Struct, frozen=True):
    """One file to fetch; ``etag`` is its sha256 when large, its git blob id when small."""

    name: str
    size_bytes: int
    etag: str
    is_sha256: bool


class Plan(msgspec.Struct, frozen=True):
    """What a pull would do."""

    repository: str
    revision: str
    folder: Path
    files: tuple[Wanted, ...]
    skipped: tuple[str, ...]
    bytes_total: int
    bytes_here: int
    """Already complete or in a partial file."""
    branch: str = ""
    """The branch or tag that was asked for; empty when it was a commit."""

    @property
    def bytes_to_fetch(self) -> int:
        """What is left to transfer."""
        return self.bytes_total - self.bytes_here

    @property
    def snapshot(self) -> Path:
        """The folder an engine is pointed at."""
        return self.folder / "snapshots" / self.revision

    def blob(self, file: Wanted) -> Path:
        """Where the content of a file lives in the cache."""
        return self.folder / "blobs" / file.etag

    def partial(self, file: Wanted) -> Path:
        """Where it grows."""
        return self.folder / "blobs" / f"{file.etag}.partial"


class Progress(msgspec.Struct, frozen=True):
    """How far a pull is."""

    file: str
    bytes_done: int
    bytes_total: int
    rate_bytes_s: float
    eta_s: float | None


class PullCancelledError(ConsoleError):
    """The operator stopped it; what is here is kept."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(
            f"pull of {plan.repository} cancelled", why="what was fetched is kept", todo="pull again to go on"
        )


Report = Callable[[Progress], None]


def wanted_file(name: str, *, has_safetensors: bool, everything: bool) -> bool:
    """Training state never, torch's pickles only when there is nothing better or all is asked for."""
    if everything:
        return True
    if SKIPPED.fullmatch(name) or name.startswith(".git"):
        return False
    return not (has_safetensors and name.endswith((".bin", ".pt", ".onnx", ".gguf", ".h5", ".msgpack")))


def plan_pull(repository: str, revision: str = "", *, everything: bool = False) -> Plan:
    """Ask the hub what there is.

    Raises:
        ConsoleError: not found, gated, private, no such revision, unreachable.
    """
    from huggingface_hub import HfApi, constants

    try:
        info = HfApi().model_info(repository, revision=revision or None, files_metadata=True, timeout=10.0)
    except Exception as error:  # noqa: BLE001 - every failure of the HTTP library becomes one line
        raise hub_error(error, repository, revision) from None
    siblings = info.siblings or []
    has_safetensors = any(item.rfilename.endswith(".safetensors") for item in siblings)
    files, skipped = [], []
    for item in siblings:
        if not _safe_name(item.rfilename):
            raise ConsoleError(
                f"{repository} holds the file name {item.rfilename!r}", why="it would leave the cache folder"
            )
        if not wanted_file(item.rfilename, has_safetensors=has_safetensors, everything=everything):
            skipped.append(item.rfilename)
            continue
        etag = item.lfs.sha256 if item.lfs else item.blob_id
        files.append(Wanted(item.rfilename, item.size or 0, str(etag or ""), bool(item.lfs)))
    folder = Path(constants.HF_HUB_CACHE) / ("models--" + repository.replace("/", "--"))
    branch = "" if COMMIT.fullmatch(revision) else revision or "main"
    if branch and not _safe_name(branch):
        raise ConsoleError(f"{revision!r} is no revision", code=ExitCode.USAGE)
    total = sum(file.size_bytes for file in files)
    plan = Plan(repository, str(info.sha), folder, tuple(files), tuple(skipped), total, 0, branch)
    return msgspec.structs.replace(plan, bytes_here=sum(_bytes_here(plan, file) for file in files))


def _safe_name(name: str) -> bool:
    parts = Path(name).parts
    return bool(parts) and not name.startswith("/") and ".." not in parts


def _bytes_here(plan: Plan, file: Wanted) -> int:
    for path in (plan.blob(file), plan.partial(file)):
        with contextlib.suppress(OSError):
            return min(path.stat().st_size, file.size_bytes)
    return 0


def check_space(plan: Plan) -> None:
    """Refuse before a byte is written when the cache's own mount cannot hold it.

    Raises:
        ConsoleError: with what is needed and what is free.
    """
    place = plan.folder
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    needed = int(plan.bytes_to_fetch * (1 + SPARE_SHARE))
    if needed > free:
        raise ConsoleError(
            f"not enough room for {plan.repository}",
            why=f"{gigabytes(needed)} are needed in {place}, {gigabytes(free)} are free",
            todo="free some, or point HF_HUB_CACHE to another disk",
        )


def pull(plan: Plan, report: Report = lambda _: None, cancel: threading.Event | None = None) -> Path:
    """Fetch, prove and place every file; the snapshot folder is complete when this returns.

    Raises:
        ConsoleError: one line; what was fetched stays and the next pull goes on from there.
        PullCancelledError: ``cancel`` was set.
    """
    check_space(plan)
    meter = _Meter(plan, report, cancel or threading.Event())
    try:
        plan.snapshot.mkdir(parents=True, exist_ok=True)
        (plan.folder / "blobs").mkdir(exist_ok=True)
        with _alone(plan.folder / "blobs" / ".pull.lock", plan):
            for file in plan.files:
                _fetch(plan, file, meter)
                _link(plan, file)
            _write_ref(plan)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise ConsoleError(
                f"the disk is full in the middle of {plan.repository}",
                why=f"{gigabytes(plan.bytes_total - meter.done)} more are needed; what was fetched is kept",
                todo="free some and pull again",
            ) from error
        raise ConsoleError(f"cannot write to {plan.folder}", why=error.strerror or str(error)) from error
    return plan.snapshot


@contextlib.contextmanager
def _alone(lock: Path, plan: Plan) -> Iterator[None]:
    """One pull of a repository at a time; the lock dies with its holder."""
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConsoleError(f"{plan.repository} is being pulled already", todo="wait for it") from error
        yield


class _Meter:
    """Counts bytes, reports at most ten times a second, and carries the operator's cancel into the transfer."""

    def __init__(self, plan: Plan, report: Report, cancel: threading.Event) -> None:
        self.plan, self.report, self.cancel = plan, report, cancel
        self.done = 0
        self.file = ""
        self.started = self.reported = time.monotonic()
        self.fetched = 0

    def have(self, count: int) -> None:
        """Bytes that were here before."""
        self.done += count

    def add(self, count: int) -> None:
        """Bytes that came over the network."""
        if self.cancel.is_set():
            raise PullCancelledError(self.plan)
        self.done += count
        self.fetched += count
        now = time.monotonic()
        if now - self.reported >= 0.1 or self.done >= self.plan.bytes_total:
            self.reported = now
            rate = self.fetched / max(now - self.started, 1e-6)
            left = self.plan.bytes_total - self.done
            self.report(Progress(self.file, self.done, self.plan.bytes_total, rate, left / rate if rate > 0 else None))


def _fetch(plan: Plan, file: Wanted, meter: _Meter) -> None:
    meter.file = file.name
    blob, partial = plan.blob(file), plan.partial(file)
    if blob.exists():
        if blob.stat().st_size == file.size_bytes:
            meter.have(file.size_bytes)
            return
        blob.unlink()
    here = partial.stat().st_size if partial.exists() else 0
    if here > file.size_bytes:
        partial.unlink()
        here = 0
    meter.have(here)
    if here < file.size_bytes or file.size_bytes == 0:
        _transfer(plan, file, here, meter)
    _prove(plan, file)
    partial.replace(blob)


def _transfer(plan: Plan, file: Wanted, here: int, meter: _Meter) -> None:
    """Append the rest of the file to its partial."""
    from huggingface_hub import constants, file_download, get_hf_file_metadata, hf_hub_url
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    url = hf_hub_url(plan.repository, file.name, revision=plan.revision)
    constants.DOWNLOAD_CHUNK_SIZE = min(constants.DOWNLOAD_CHUNK_SIZE, PIECE_BYTES)
    try:
        metadata = get_hf_file_metadata(url)
        if metadata.xet_file_data is not None and importlib.util.find_spec("hf_xet"):
            file_download.xet_get(
                incomplete_path=plan.partial(file), xet_file_data=metadata.xet_file_data, headers=build_hf_headers(),
                expected_size=file.size_bytes, displayed_filename=file.name, tqdm_class=_bar(meter),
            )  # fmt: skip
            return
        with plan.partial(file).open("ab") as out:
            file_download.http_get(
                metadata.location, out, resume_size=here, headers=build_hf_headers(), expected_size=file.size_bytes,
                tqdm_class=_bar(meter),
            )  # fmt: skip
    except (ConsoleError, KeyboardInterrupt):
        raise
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        raise _broken(plan, file, error) from error
    except Exception as error:  # noqa: BLE001 - every failure of the HTTP library becomes one line
        raise hub_error(error, plan.repository, plan.revision[:12]) from None


def _broken(plan: Plan, file: Wanted, error: OSError) -> ConsoleError:
    """The transfer ended early or brought something of another size."""
    response = getattr(error, "response", None)
    if response is not None:
        return hub_error(error, plan.repository, plan.revision[:12])
    have = plan.partial(file).stat().st_size if plan.partial(file).exists() else 0
    return ConsoleError(
        f"the connection was lost at {gigabytes(have)} of {file.name} ({gigabytes(file.size_bytes)})",
        why="what was fetched is kept",
        todo="pull again to go on",
        code=ExitCode.UNREACHABLE,
    )


def _bar(meter: _Meter) -> Any:
    """huggingface_hub reports progress to a tqdm class; this one feeds the meter and draws nothing."""
    from tqdm import tqdm

    class Bar(tqdm):  # type: ignore[misc]
        def __init__(self, *_args: Any, **_options: Any) -> None:
            super().__init__(disable=True)

        def update(self, n: float | None = 1) -> bool | None:
            meter.add(int(n or 0))
            return None

    return Bar


def _prove(plan: Plan, file: Wanted) -> None:
    """Size and hash of what was fetched; a file that fails is removed, so that the next pull starts it anew."""
    partial = plan.partial(file)
    if not partial.exists():
        partial.touch()
    size = partial.stat().st_size
    digest = hashlib.sha256() if file.is_sha256 else hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
    with partial.open("rb") as data:
        start = data.read(512)
        data.seek(0)
        while chunk := data.read(HASH_CHUNK_BYTES):
            digest.update(chunk)
    if size == file.size_bytes and (not file.etag or digest.hexdigest() == file.etag):
        return
    partial.unlink()
    what = (
        "an HTML page came instead of data"
        if start.lstrip()[:1] == b"<"
        else "its content is not what the hub announced"
    )
    raise ConsoleError(f"{file.name} of {plan.repository} is damaged", why=what, todo="it was removed; pull again")


def _link(plan: Plan, file: Wanted) -> None:
    """The snapshot's name for a blob, relative as huggingface_hub writes it."""
    place = plan.snapshot / file.name
    place.parent.mkdir(parents=True, exist_ok=True)
    goal = os.path.relpath(plan.blob(file), place.parent)
    if place.is_symlink() and place.readlink() == Path(goal):
        return
    place.unlink(missing_ok=True)
    place.symlink_to(goal)


def _write_ref(plan: Plan) -> None:
    """``refs/main`` names the commit that main stood for, so that a plain repository name resolves offline.

    Written as huggingface_hub does: for the branch that was asked for each time, for a commit only where there is no main yet.
    """
    reference = plan.folder / "refs" / (plan.branch or "main")
    if not plan.branch and reference.exists():
        return
    reference.parent.mkdir(parents=True, exist_ok=True)
    reference.write_text(plan.revision)
