"""One session on a GPU box: the real SGLang under the console, every claim of the probe measured, one table at the end.

    python -m tests.real.gpu_session OUT [--part first|second] [--profile FILE]

Runs with an interpreter that has SGLang and the console's dependencies, from the repository's root. Nothing on the card is changed:
no clocks, no power limits, no MIG. Each check is on its own: one that fails is a row of the table, the others go on.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
import traceback
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from console.engine.feed import FeedReader, Message
from console.engine.http import EngineClient
from console.engine.live import LiveControl
from console.errors import ConsoleError
from console.paths import RigPaths
from tests.real.load import Load, Result

RIG = "gpu"
DEPTHS = (0, 1, 2, 3, 5)
SETTLE_S = 4.0
STEADY_S = 8.0


class Session:
    """The box, the rig, and the rows found so far."""

    def __init__(self, out: Path, checkpoints: Path, profile: Path) -> None:
        self.out, self.checkpoints, self.profile = out, checkpoints, profile
        self.rows: list[dict[str, Any]] = []
        self.paths = RigPaths(RIG)

    def console(self, *words: str, timeout_s: float = 400) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "console", "--rig", RIG, *words],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def status(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.console("status", "--json").stdout)
        return answer

    def row(self, what: str, good: bool | None, **figures: Any) -> None:
        self.rows.append({"what": what, "ok": good, **figures})
        mark = {True: "ok", False: "NO", None: "--"}[good]
        print(f"{mark:3} {what}: {json.dumps(figures, default=str)}", flush=True)
        (self.out / "rows.json").write_text(json.dumps(self.rows, indent=1, default=str))

    def check(self, what: str, do: Callable[[], None]) -> None:
        began = time.monotonic()
        try:
            do()
        except Exception as error:
            (self.out / "errors.txt").open("a").write(f"== {what}\n{traceback.format_exc()}\n")
            self.row(
                what, False, error=f"{type(error).__name__}: {error}"[:300], seconds=round(time.monotonic() - began, 1)
            )

    @property
    def url(self) -> str:
        return str(self.status()["engine"]["url"])

    def keys(self) -> tuple[str, str]:
        with contextlib.suppress(OSError, ValueError):
            keys = json.loads((self.paths.dir / "engine-keys.json").read_text())
            return keys.get("api_key", ""), keys.get("admin_key", "")
        return "", ""

    def live(self, do: Callable[[LiveControl], Any], tp: int = 1) -> Any:
        async def run() -> Any:
            api_key, admin_key = self.keys()
            async with EngineClient(self.url, api_key=api_key, admin_key=admin_key) as client:
                return await do(LiveControl(client, self.paths.probe, tp))

        return asyncio.run(run())

    @contextlib.contextmanager
    def load(self, clients: int, tokens: int = 256) -> Iterator[Load]:
        with Load(self.url, self.checkpoints, clients=clients, tokens=tokens) as load:
            yield load


def newest(paths: RigPaths, rank: int = 0) -> Message:
    """The rank's message, never older than this call."""
    asked = time.time()
    deadline = asked + 20
    with FeedReader(paths.probe, sockets=False) as reader:
        while True:
            found = [message for message in reader.poll() if message.rank == rank and message.at_s >= asked]
            if found:
                return found[0]
            if time.time() > deadline:
                raise TimeoutError("the probe is silent")
            time.sleep(0.05)


def scrape(url: str) -> dict[str, float]:
    """Counters of interest, summed over everything but category and mode."""
    text = urllib.request.urlopen(f"{url}/metrics", timeout=20).read().decode()
    found: dict[str, float] = {}
    for line in text.splitlines():
        for family, label in (("forward_execution_seconds_total", "category"), ("cuda_graph_passes_total", "mode")):
            if line.startswith(f"sglang:{family}{{"):
                value = line.split(f'{label}="')[1].split('"')[0]
                found[f"{family}/{value}"] = found.get(f"{family}/{value}", 0.0) + float(line.rsplit(" ", 1)[1])
    return found


def clean(result: Result) -> bool:
    return result.requests > 0 and not result.failed and result.wrong == 0


# ------------------------------------------------------------------------------------------------ first part


def launch(session: Session) -> None:
    began = time.monotonic()
    done = session.console("run", str(session.profile), "--json", timeout_s=420)
    took = time.monotonic() - began
    (session.out / "run.txt").write_text(done.stdout + done.stderr)
    status = session.status()
    phases = {phase["label"]: round(phase.get("seconds") or 0, 1) for phase in status["engine"].get("phases", [])}
    session.row(
        "launch", done.returncode == 0, seconds=round(took, 1), phases=phases, version=status["engine"].get("version")
    )
    (session.out / "status-ready.json").write_text(json.dumps(status))


def gpus(session: Session) -> None:
    query = "index,name,utilization.gpu,memory.used,power.draw,temperature.gpu,clocks.sm"
    said = subprocess.run(
        ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    ).stdout.strip()
    gpu = session.status()["gpus"][0]
    smi_mib = float(said.split(",")[3])
    ours_mib = gpu["mem_used_bytes"] / 2**20
    cells = {
        key: gpu.get(key)
        for key in ("util_pct", "power_w", "temp_c", "sm_clock_mhz", "pcie_rx_bytes_s", "pcie_tx_bytes_s")
    }
    good = abs(ours_mib - smi_mib) < 0.02 * smi_mib + 700
    session.row("GPU row beside nvidia-smi", good, nvidia_smi=said, memory_mib=round(ours_mib), rank=gpu.get("rank"),
                missing=gpu.get("missing"), **cells)  # fmt: skip


def depths(session: Session, clients: int) -> None:
    with session.load(clients, tokens=512) as load:
        time.sleep(3)
        for depth in DEPTHS:
            began = time.monotonic()
            done = session.console("depth", str(depth), "--yes", "--json")
            command_s = time.monotonic() - began
            operation = json.loads(done.stdout) if done.stdout else {}
            time.sleep(SETTLE_S)
            before = newest(session.paths)
            time.sleep(STEADY_S)
            after = newest(session.paths)
            seconds = after.at_s - before.at_s
            rounds = after.acceptance.rounds - before.acceptance.rounds
            accepted = after.acceptance.accepted - before.acceptance.accepted
            snapshot = session.status()
            stages = {name: round((counter.sum_ms - before.stages[name].sum_ms) / max(counter.count - before.stages[name].count, 1), 3)
                      for name, counter in after.stages.items() if name in before.stages}  # fmt: skip
            session.row(f"depth {depth}, {clients} streams", done.returncode == 0 and after.depth == depth, path=operation.get("path"),
                        command_s=round(command_s, 2), accept_len=round(1 + accepted / max(rounds, 1), 3),
                        tok_s=round((rounds + accepted) / seconds, 1), stages_ms=stages,
                        shown_accept_len=(snapshot["acceptance"]["accept_len"] or {}).get("value"))  # fmt: skip
        result = load.stop()
    session.row(f"load during depth changes, {clients} streams", clean(result), requests=result.requests, failed=len(result.failed),
                wrong=result.wrong)  # fmt: skip


def depth_effect(session: Session) -> None:
    """From the command's acceptance to the first round at the new depth, by the rank's own switch record."""
    with session.load(4):
        time.sleep(1)

        async def flip(control: LiveControl) -> list[float]:
            times = []
            for depth in (3, 1, 3, 2, 5, 3):
                began = time.monotonic()
                await control.set_depth(depth)
                times.append((time.monotonic() - began) * 1000)
            return times

        times = session.live(flip)
        message = newest(session.paths)
    session.row("depth by the probe", True, round_trip_ms=[round(t, 1) for t in times], switches=len(message.switches))

    def refused() -> str:
        try:
            session.live(lambda control: control.set_depth(4))
        except ConsoleError as error:
            return error.line
        return ""

    said = refused()
    session.row("depth 4, not built, is refused", bool(said), said=said)


def swap(session: Session) -> None:
    a, b = session.checkpoints / "drafter-a", session.checkpoints / "drafter-b"
    session.live(lambda control: control.set_depth(3))
    with session.load(4) as load:
        time.sleep(4)
        for name, folder in (("a -> b", b), ("b -> a", a), ("a -> b again", b), ("back to a", a)):
            before = newest(session.paths)
            began = time.monotonic()

            async def exchange(control: LiveControl, folder: Path = folder) -> dict[str, Any]:
                await control.swap(str(folder))
                assert control.last is not None
                return {
                    "checksums": control.last.checksums,
                    "seconds": control.last.seconds,
                    "round_trip_s": control.last.round_trip_s,
                }

            answer = session.live(exchange)
            took = time.monotonic() - began
            time.sleep(SETTLE_S)
            start = newest(session.paths)
            time.sleep(5)
            end = newest(session.paths)
            rounds = end.acceptance.rounds - start.acceptance.rounds
            accepted = end.acceptance.accepted - start.acceptance.accepted
            good = before.drafter.checksum != end.drafter.checksum
            session.row(f"live swap {name}", good, accept_len=round(1 + accepted / max(rounds, 1), 3), seconds_all=round(took, 3),
                        round_trip_ms=round(answer["round_trip_s"] * 1000, 1),
                        phases_ms={k: round(v * 1000, 1) for k, v in answer["seconds"].items()}, checksum=answer["checksums"])  # fmt: skip
        result = load.stop()
    session.row(
        "load during live swaps", clean(result), requests=result.requests, failed=len(result.failed), wrong=result.wrong
    )


def refusals(session: Session) -> None:
    """What cannot be swapped is refused on all ranks, and the server goes on."""
    source = session.checkpoints / "drafter-b"
    work = session.out / "broken"
    for name in ("truncated", "no-weights", "other-d2t"):
        shutil.copytree(source, work / name, dirs_exist_ok=True)
    weights = work / "truncated" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-5000])
    (work / "no-weights" / "model.safetensors").unlink()
    _other_map(work / "other-d2t" / "model.safetensors")
    cases = {"wrong shape": session.checkpoints / "drafter-bad", "missing folder": Path("/no/such/drafter"),
             "truncated": work / "truncated", "no weights": work / "no-weights", "other d2t": work / "other-d2t"}  # fmt: skip
    before = newest(session.paths).drafter.checksum
    for name, folder in cases.items():
        said = ""
        try:
            said = "swapped: " + session.live(lambda control, folder=folder: control.swap(str(folder)))
        except ConsoleError as error:
            said = error.line
        handled = not said.startswith("swapped") or name == "other d2t"
        session.row(f"swap refused or handled: {name}", handled, said=said[:220])
    session.live(lambda control: control.swap(str(session.checkpoints / "drafter-a")))
    with session.load(2) as load:
        time.sleep(4)
        result = load.stop()
    session.row("after the refusals", clean(result), same_drafter=newest(session.paths).drafter.checksum == before,
                requests=result.requests)  # fmt: skip
    shutil.rmtree(work, ignore_errors=True)


def _other_map(path: Path) -> None:
    """Another draft vocabulary, as legal as the first."""
    data = bytearray(path.read_bytes())
    length = int.from_bytes(data[:8], "little")
    entry = json.loads(bytes(data[8 : 8 + length]))["d2t"]
    begin = 8 + length + entry["data_offsets"][0]
    count = entry["shape"][0]
    last = begin + 8 * (count - 1)
    value = int.from_bytes(data[last : last + 8], "little", signed=True)
    data[last : last + 8] = (value - 1 if value > 0 else value + 1).to_bytes(8, "little", signed=True)
    path.write_bytes(data)


def stages(session: Session, seconds: float) -> None:
    """The probe's stage means against SGLang's own counters over the same time."""
    session.live(lambda control: control.set_depth(3))
    with session.load(4):
        time.sleep(3)
        counters, message = scrape(session.url), newest(session.paths)
        time.sleep(seconds)
        later, after = scrape(session.url), newest(session.paths)
    passes = sum(later.get(f"cuda_graph_passes_total/{mode}", 0) - counters.get(f"cuda_graph_passes_total/{mode}", 0)
                 for mode in ("decode_cuda_graph", "decode_none"))  # fmt: skip
    for stage, category in (("verify", "target_verify"), ("draft", "eagle_draft"), ("extend", "eagle_draft_extend")):
        key = f"forward_execution_seconds_total/{category}"
        theirs = 1000 * (later.get(key, 0) - counters.get(key, 0)) / passes if passes else 0
        was, now = message.stages.get(stage), after.stages.get(stage)
        rounds = now.count - was.count if now and was else 0
        ours = (now.sum_ms - was.sum_ms) / rounds if now and was and rounds else 0
        ratio = ours / theirs if theirs else None
        session.row(f"{stage} ms: probe against SGLang's counter", None if ratio is None else abs(ratio - 1) < 0.03,
                    probe_ms=round(ours, 4), counter_ms=round(theirs, 4), ratio=ratio and round(ratio, 4), rounds=rounds,
                    passes=passes, timed_by=after.timing.by)  # fmt: skip


def positions(session: Session) -> None:
    """Acceptance by position against the histograms in the replies, with no other traffic."""
    session.live(lambda control: control.set_depth(3))
    time.sleep(1.5)
    load = Load(session.url, session.checkpoints, clients=0)
    before = newest(session.paths).acceptance
    total = [0] * 8
    for serial in range(12):
        answer = load.ask([100 + serial, 200 + serial], 200)
        histogram = answer["meta_info"].get("spec_correct_drafts_histogram") or answer["meta_info"].get(
            "spec_accept_histogram"
        )
        for index, count in enumerate(histogram or []):
            total[index] += count
    time.sleep(1.5)
    after = newest(session.paths).acceptance
    hits = [now - (before.hits[i] if i < len(before.hits) else 0) for i, now in enumerate(after.hits)][:3]
    rounds = after.rounds - before.rounds
    expected = [sum(total[index:]) for index in range(1, 4)]
    session.row("acceptance by position against the replies", hits == expected and rounds == sum(total), probe_hits=hits,
                replies=expected, probe_rounds=rounds, reply_rounds=sum(total))  # fmt: skip


def overhead(session: Session, pairs: int, seconds: float, clients: int) -> None:
    """Time of a decode round with the probe's hooks on against muted, in one engine, switched every fraction of a second.

    tok/s is accept_len over the time of a round and the probe cannot change acceptance, so this is the loss of tok/s without the
    luck of acceptance in it. Long answers: a prefill between two rounds would be counted, too.
    """
    ratios: list[float] = []
    with session.load(clients, tokens=6000):
        time.sleep(6)
        api_key, admin_key = session.keys()
        url = session.url

        async def alternate() -> None:
            async with EngineClient(url, api_key=api_key, admin_key=admin_key) as client:
                control = LiveControl(client, session.paths.probe, 1)
                for pair in range(pairs):
                    found = {}
                    for muted in (pair % 2 == 0, pair % 2 == 1):
                        await control.fault(kind="mute", on=muted)
                        await asyncio.sleep(0.1)
                        first = _moments(url)
                        await asyncio.sleep(seconds)
                        last = _moments(url)
                        found[muted] = (last[1] - first[1]) / (last[0] - first[0])
                    ratios.append(found[False] / found[True])
                await control.fault(kind="mute", on=False)

        asyncio.run(alternate())
    (session.out / f"overhead-{clients}.json").write_text(json.dumps(ratios))
    middle = sorted(ratios)[
        len(ratios) // 10 : len(ratios) - len(ratios) // 10
    ]  # a prefill or a switch of requests is no overhead
    mean, half = statistics.mean(middle), 1.96 * statistics.stdev(middle) / len(middle) ** 0.5
    session.row(f"time of a round with the probe / without, {clients} streams", mean - half < 1.005, ratio=round(mean, 5),
                interval=[round(mean - half, 5), round(mean + half, 5)], median=round(statistics.median(ratios), 5), pairs=pairs)  # fmt: skip


def _moments(url: str) -> tuple[float, float]:
    """Decode rounds and their microseconds so far."""
    body = json.loads(urllib.request.urlopen(f"{url}/v1/loads?include=all", timeout=20).read())
    moments = body["loads"][0]["decode_moments"]
    return moments[0], moments[2]


def faults(session: Session) -> None:
    """An exception in each hook: the server serves on and the feed says what is off."""
    for hook in ("acceptance", "stages", "commands"):
        session.live(lambda control, hook=hook: control.fault(kind="raise", hook=hook))
        with contextlib.suppress(ConsoleError):
            if hook == "commands":
                session.live(lambda control: control.ping())
        with session.load(2) as load:
            time.sleep(3)
            result = load.stop()
        state = newest(session.paths).hooks.get(hook, "")
        session.row(
            f"exception in {hook}", clean(result) and state.startswith("off"), says=state, requests=result.requests
        )


def deck(session: Session) -> None:
    """The deck as an operator sees it, by tmux."""
    if shutil.which("tmux") is None:
        session.row("deck in tmux", None, why="no tmux on this box")
        return
    command = f"{sys.executable} -m console --rig {RIG}"
    for name, size in (("80x24", ("80", "24")), ("120x36", ("120", "36")), ("200x50", ("200", "50"))):
        subprocess.run(["tmux", "-L", "gpu", "new-session", "-d", "-x", size[0], "-y", size[1], command], check=True)
        time.sleep(6)
        shown = subprocess.run(
            ["tmux", "-L", "gpu", "capture-pane", "-p"], capture_output=True, text=True, check=True
        ).stdout
        (session.out / f"deck-{name}.txt").write_text(shown)
        if name == "120x36":
            subprocess.run(["tmux", "-L", "gpu", "send-keys", "]"], check=True)
            time.sleep(4)
            after = subprocess.run(
                ["tmux", "-L", "gpu", "capture-pane", "-p"], capture_output=True, text=True, check=True
            ).stdout
            (session.out / "deck-after-key.txt").write_text(after)
        subprocess.run(["tmux", "-L", "gpu", "kill-server"], check=False)
        session.row(f"deck {name}", "accept_len" in shown, lines=len(shown.splitlines()))


def crash(session: Session) -> None:
    """kill -9 of the scheduler: noticed, cause told, GPU memory given back."""
    engine = session.status()["engine"]
    scheduler = next(process["pid"] for process in engine["processes"] if process["role"] == "scheduler")
    os.kill(scheduler, signal.SIGKILL)
    began = time.monotonic()
    while time.monotonic() - began < 60:
        snapshot = session.status()
        if snapshot["engine"]["state"] == "dead":
            break
        time.sleep(0.2)
    noticed = time.monotonic() - began
    memory = None
    while time.monotonic() - began < 60:
        memory = session.status()["gpus"][0]["mem_used_bytes"] / 2**30
        if memory < 2:
            break
        time.sleep(0.5)
    failure = snapshot["engine"].get("failure") or {}
    session.row("kill -9 of the scheduler", snapshot["engine"]["state"] == "dead", dead_after_s=round(noticed, 1),
                cause=failure.get("message"), memory_gib=memory and round(memory, 1), free_after_s=round(time.monotonic() - began, 1))  # fmt: skip


def restart_and_stop(session: Session) -> None:
    began = time.monotonic()
    done = session.console("restart", timeout_s=300)
    session.row(
        "restart", done.returncode == 0, seconds=round(time.monotonic() - began, 1), said=done.stdout.strip()[-200:]
    )
    began = time.monotonic()
    done = session.console("stop", timeout_s=200)
    session.row(
        "stop", done.returncode == 0, seconds=round(time.monotonic() - began, 1), said=done.stdout.strip()[-200:]
    )


def calibration(session: Session) -> None:
    """The cost table by the console's own operation, and what follows from it."""
    began = time.monotonic()
    words = (
        "calibrate",
        "--depths",
        "0,1,2,3,5",
        "--concurrency",
        "1,16",
        "--tokens",
        "300",
        "--repetitions",
        "2",
        "--yes",
        "--json",
    )
    done = session.console(*words, timeout_s=300)
    said = json.loads(done.stdout).get("message") if done.stdout.strip() else done.stderr[-300:]
    session.row("calibration", done.returncode == 0, seconds=round(time.monotonic() - began, 1), said=said)
    runs = sorted((session.paths.dir / "runs").glob("*-calibrate.json"))
    if runs:
        shutil.copy(runs[-1], session.out / "calibration.json")
        for cell in json.loads(runs[-1].read_text())["result"]["cells"]:
            predicted = (
                1000 * cell["accept_len"] / cell["cycle_ms"]
                if cell.get("accept_len") and cell.get("cycle_ms")
                else None
            )
            session.row(f"cell depth {cell['depth']}, {cell['concurrency']} streams", None, stream_tok_s=cell["stream_tok_s"],
                        total=round(cell["total_tok_s"]["median"], 1), accept_len=cell.get("accept_len"), cycle_ms=cell.get("cycle_ms"),
                        verify_ms=cell.get("verify_ms"), predicted_tok_s=predicted and round(predicted, 1))  # fmt: skip


def real_size(session: Session) -> None:
    """A drafter of 2.4 GB: seconds of the swap against seconds to read its file, and the restart beside it."""
    folders = {name: session.checkpoints / f"drafter-{name}" for name in ("a", "b")}
    size = (folders["b"] / "model.safetensors").stat().st_size
    began = time.monotonic()
    with (folders["b"] / "model.safetensors").open("rb", buffering=0) as file:
        while file.read(16 << 20):
            pass
    read_s = time.monotonic() - began
    session.live(lambda control: control.set_depth(3))
    with session.load(4) as load:
        time.sleep(3)
        for step, name in enumerate(("b", "a", "b", "a")):
            began = time.monotonic()

            async def exchange(control: LiveControl, folder: Path = folders[name]) -> dict[str, Any]:
                await control.swap(str(folder))
                assert control.last is not None
                return {"checksums": control.last.checksums, "seconds": control.last.seconds}

            answer = session.live(exchange)
            took = time.monotonic() - began
            time.sleep(3)
            start = newest(session.paths)
            time.sleep(4)
            end = newest(session.paths)
            rounds = end.acceptance.rounds - start.acceptance.rounds
            accepted = end.acceptance.accepted - start.acceptance.accepted
            good = took < 2 * read_s if step == 0 else True
            session.row(f"swap of {size / 1e9:.2f} GB to {name}, {'from disk' if step == 0 else 'again'}", good, seconds=round(took, 2),
                        read_file_s=round(read_s, 2), accept_len=round(1 + accepted / max(rounds, 1), 3), checksum=answer["checksums"],
                        phases_ms={k: round(v * 1000, 1) for k, v in answer["seconds"].items()})  # fmt: skip
        result = load.stop()
    session.row(
        "load during swaps of real size",
        clean(result),
        requests=result.requests,
        failed=len(result.failed),
        wrong=result.wrong,
    )


FIRST: tuple[tuple[str, Callable[[Session], None]], ...] = (
    ("launch", launch),
    ("GPU row", gpus),
    ("depths", lambda session: depths(session, 16)),
    ("depth by the probe", depth_effect),
    ("swap", swap),
    ("refusals", refusals),
    ("stages", lambda session: stages(session, 40)),
    ("positions", positions),
    ("deck", deck),
    ("overhead", lambda session: overhead(session, 60, 0.6, 8)),
    ("faults", faults),
    ("crash", crash),
)
SECOND: tuple[tuple[str, Callable[[Session], None]], ...] = (
    ("launch", launch),
    ("swap of real size", real_size),
    ("overhead", lambda session: overhead(session, 60, 0.6, 1)),
    ("overhead", lambda session: overhead(session, 60, 0.6, 8)),
    ("calibration", calibration),
    ("restart and stop", restart_and_stop),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--part", choices=("first", "second", "overhead", "all"), default="all")
    parser.add_argument("--profile", type=Path, required=True)
    parser.add_argument("--checkpoints", type=Path, default=Path("/tmp/ckpt"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    session = Session(options.out, options.checkpoints, options.profile)
    costs = (FIRST[0], *(step for step in SECOND if step[0] == "overhead"))
    parts = {"first": FIRST, "second": SECOND, "overhead": costs, "all": FIRST + SECOND}[options.part]
    for what, do in parts:
        session.check(what, lambda do=do: do(session))
    session.console("stop", timeout_s=120)
    session.console("agent", "stop", timeout_s=30)
    bad = [row["what"] for row in session.rows if row["ok"] is False]
    print(f"\n{len(session.rows)} rows, {len(bad)} not ok: {', '.join(bad) or 'none'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
