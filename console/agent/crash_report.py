"""Crash reports: all that was known when an engine died by itself. One JSON file each; the newest are kept."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from console import __version__
from console.agent import death, files
from console.agent.state import Ending, EngineRecord
from console.engine.logtext import sanitize
from console.engine.secrets import mask_text
from console.errors import ConsoleError, ExitCode
from console.rig import Alarm, Failure, Gpu, Operation, Snapshot

SCHEMA = 1
KEPT = 50
LOG_LINES = 200
OPERATIONS_S = 3600.0
"""What was changed in this time before the end is a suspect."""
NAME = re.compile(r"\d{8}-\d{6}(?:\.\d+)?")
SUFFIX = ".json"
MOST_BYTES = 4 << 20


class LastSeen(msgspec.Struct, frozen=True, omit_defaults=True):
    """What it was doing in the last snapshot before its end."""

    at_s: float
    running: float | None = None
    queued: float | None = None
    tok_s: float | None = None
    token_usage: float | None = None
    accept_len: float | None = None
    depth: float | None = None
    cycle_ms: float | None = None


class CrashReport(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One death. Secrets are masked in every text."""

    schema: int = SCHEMA
    id: str
    at_s: float
    rig: str
    simulated: bool = False
    profile: str = ""
    configuration: str = ""
    """The profile and what differed from it."""
    by: str = ""
    """Who had started the engine."""
    pid: int | None = None
    url: str = ""
    started_at_s: float | None = None
    ready_at_s: float | None = None
    """``None``: it died before its first token."""
    exit_code: int | None = None
    """Of the launcher; negative for a signal; ``None`` when nobody could wait for it."""
    signal: str = ""
    cause: Failure
    """The first cause, with all ranks that reported it."""
    more_causes: tuple[Failure, ...] = ()
    note: str = ""
    last_seen: LastSeen | None = None
    gpus: tuple[Gpu, ...] = ()
    gpu_note: str = ""
    xids: tuple[str, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    operations: tuple[Operation, ...] = ()
    """Those of the last hour, oldest first."""
    versions: dict[str, str] = {}
    command: str = ""
    log_path: str = ""
    log_lines: tuple[str, ...] = ()


class Death(NamedTuple):
    """What the supervisor knows when it declares an engine dead."""

    record: EngineRecord
    ended: Ending
    causes: tuple[Failure, ...]
    """Of the log; the first one is the cause."""
    log_lines: tuple[str, ...]
    watched: bool
    """An agent was there when it happened; else a successor has found it dead."""
    secrets: frozenset[str] = frozenset()


def compose(
    name: str, found: Death, *, before: Snapshot, now: Snapshot, operations: Iterable[dict[str, Any]]
) -> CrashReport:
    """The report of a death.

    Args:
        name: the rig's.
        found: what the supervisor knows.
        before: the last snapshot in which the engine lived; one of another engine is passed over.
        now: a snapshot after the end: a GPU that was lost and an Xid that came with it stand there.
        operations: rows of the journal; those of the last hour are kept.
    """
    record, ended = found.record, found.ended
    code = ended.exit_code
    if before.engine.started_at_s != record.started_at_s:
        before = Snapshot()
    gpus = _gpus(before, now)
    cause = ended.failure or Failure("ended", "it ended without a word")
    report = CrashReport(
        id=time.strftime("%Y%m%d-%H%M%S", time.localtime(ended.at_s)),
        at_s=ended.at_s,
        rig=name,
        simulated=record.simulated,
        profile=record.configuration.profile.name,
        configuration=record.configuration.name,
        by=record.by,
        pid=record.identity.pid if record.identity is not None else None,
        url=record.url,
        started_at_s=record.started_at_s,
        ready_at_s=record.ready_at_s,
        exit_code=code,
        signal=death.signal_name(-code) if code is not None and code < 0 else "",
        cause=cause,
        more_causes=tuple(entry for entry in found.causes if entry != cause),
        note=ended.note,
        last_seen=_last_seen(before),
        gpus=gpus,
        gpu_note=now.gpu_note or before.gpu_note,
        xids=tuple(_xid(gpu) for gpu in gpus if gpu.xid is not None),
        alarms=before.alarms,
        operations=_operations(operations, ended.at_s),
        versions=_versions(record, before, now),
        command=record.command,
        log_path=record.log_path,
        log_lines=found.log_lines[-LOG_LINES:],
    )
    return msgspec.convert(_masked(msgspec.to_builtins(report), found.secrets), CrashReport)


def _last_seen(before: Snapshot) -> LastSeen | None:
    if not before.at_s:
        return None
    load, acceptance = before.load, before.acceptance
    return LastSeen(
        before.at_s,
        load.running.value,
        load.queued.value,
        load.tok_s.value,
        load.token_usage.value,
        acceptance.accept_len.value,
        acceptance.depth.value,
        before.cycle.total_ms.value,
    )


def _gpus(before: Snapshot, now: Snapshot) -> tuple[Gpu, ...]:
    """As they were while it lived, but with what has befallen them since."""
    later = {(gpu.index, gpu.uuid): gpu for gpu in now.gpus}
    found = []
    for gpu in before.gpus:
        after = later.get((gpu.index, gpu.uuid))
        if after is None:
            found.append(gpu)
        elif after.state not in {"ok", "mig"}:
            found.append(after)
        else:
            found.append(msgspec.structs.replace(gpu, xid=after.xid, xid_at_s=after.xid_at_s))
    return tuple(found) or now.gpus


def _xid(gpu: Gpu) -> str:
    rank = f" (rank {gpu.rank})" if gpu.rank is not None else ""
    return f"GPU {gpu.index}{rank}: Xid {gpu.xid}"


def _operations(rows: Iterable[dict[str, Any]], at_s: float) -> tuple[Operation, ...]:
    found = []
    for row in rows:
        with contextlib.suppress(msgspec.ValidationError):
            entry = msgspec.convert(row, Operation)
            if at_s - OPERATIONS_S <= (entry.ended_at_s or entry.started_at_s) and entry.started_at_s <= at_s:
                found.append(entry)
    return tuple(found)


def _versions(record: EngineRecord, before: Snapshot, now: Snapshot) -> dict[str, str]:
    known = {
        "console": __version__,
        "SGLang": record.version or before.engine.version,
        "driver": now.driver or before.driver,
        "probe": before.probe.version,
    }
    return {name: version for name, version in known.items() if version}


def _masked(value: Any, secrets: frozenset[str]) -> Any:
    if isinstance(value, str):
        return mask_text(value, secrets)
    if isinstance(value, dict):
        return {key: _masked(item, secrets) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(item, secrets) for item in value]
    return value


# ------------------------------------------------------------------------------------------------- files


def write(folder: Path, report: CrashReport, *, kept: int = KEPT) -> CrashReport:
    """Keep a report and let the oldest go; the report with the name it got. Blocks.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    same = [_order(path.stem)[1] for path in _paths(folder) if _order(path.stem)[0] == report.id]
    name = f"{report.id}.{max(same) + 1}" if same else report.id
    report = msgspec.structs.replace(report, id=name)
    files.replace_text(folder / (name + SUFFIX), msgspec.json.format(msgspec.json.encode(report), indent=1))
    for old in _paths(folder)[:-kept]:
        with contextlib.suppress(OSError):
            old.unlink()
    return report


def _paths(folder: Path) -> list[Path]:
    """Files of reports, oldest first; nothing else in the folder is ever touched."""
    try:
        found = [path for path in folder.iterdir() if path.suffix == SUFFIX and NAME.fullmatch(path.stem)]
    except OSError:
        return []
    return sorted(found, key=lambda path: _order(path.stem))


def _order(name: str) -> tuple[str, int]:
    stamp, _, number = name.partition(".")
    return stamp, int(number or 1)


def read_all(folder: Path) -> tuple[tuple[CrashReport, ...], tuple[str, ...]]:
    """Every report that can be read, oldest first, and a line for each that cannot."""
    found, damaged = [], []
    for path in _paths(folder):
        try:
            if path.stat().st_size > MOST_BYTES:
                damaged.append(f"the crash report {path} is too long to be one")
                continue
            found.append(msgspec.json.decode(path.read_bytes(), type=CrashReport))
        except OSError as error:
            damaged.append(f"the crash report {path} cannot be read: {error.strerror or error}")
        except (msgspec.MsgspecError, ValueError) as error:
            damaged.append(f"the crash report {path} is damaged: {sanitize(str(error), limit_chars=200)}")
    return tuple(found), tuple(damaged)


def find(folder: Path, name: str) -> CrashReport:
    """The report of a name, or the only one whose name begins so.

    Raises:
        ConsoleError: there is none, it is damaged, or several begin so.
    """
    reports, damaged = read_all(folder)
    alike = [entry for entry in reports if entry.id == name] or [e for e in reports if name and e.id.startswith(name)]
    if len(alike) == 1:
        return alike[0]
    if alike:
        which = ", ".join(entry.id for entry in alike)
        raise ConsoleError(f"which crash report {name!r}?", why=f"{which} begin so", code=ExitCode.USAGE)
    why = next((line for line in damaged if name in line), "")
    raise ConsoleError(
        f"no crash report {name!r}", why=why, todo="console history --kind crashes lists them", code=ExitCode.USAGE
    )
