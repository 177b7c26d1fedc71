"""The start of the engine as its log tells it: SGLang's phases in SGLang's words, in a few seconds.

A script of steps. Each prints lines and says how far GPU memory has filled; the start can die where a real one does.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

from console.simulate import VERSION, tracebacks
from console.simulate.model import fits

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.simulate.log import Log
    from console.simulate.options import Options

NOMINAL_S = 3.0
"""A start at speed 1; a real one of this size takes minutes."""
GPU_GB = 139.8
WEIGHT_GB = 72.4
DRAFTER_GB = 0.31
KV_GB = 41.0
GRAPH_GB = 2.1
SHARDS = 62
GRAPH_BATCHES = (1, 2, 4, 8, 12, 16, 24, 32, 40, 48)


class StartFailedError(Exception):
    """The start died; ``code`` is the launcher's exit code, -9 for a SIGKILL of its own."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(f"start failed with exit code {code}")


class Startup:
    """Runs the script.

    Args:
        options: the launch.
        log: where its lines go.
        progress: called with phase, and the fractions of weights, KV pool and graphs in GPU memory.
    """

    def __init__(self, options: Options, log: Log, progress: Callable[[str, float, float, float], None]) -> None:
        self._options = options
        self._log = log
        self._progress = progress
        self._pace = NOMINAL_S / options.speed * max(1.0, options.faults.argument("slow_start", 1.0))
        self.seconds: dict[str, float] = {}
        """Measured seconds by phase: load_weight, kv_cache_allocation, cuda_graph."""

    def banner(self) -> None:
        """First lines of the launcher; they say that this is a simulation.

        Raises:
            StartFailedError: for a model or drafter folder that does not exist, as SGLang's argument resolution does.
        """
        options = self._options
        self._log.main(f"SIMULATED engine: SGLang {VERSION}'s interfaces without a GPU; every figure is simulated")
        for path, is_drafter in ((options.model, False), (options.drafter, True)):
            if path.startswith(("/", "./", "~")) and not Path(path).expanduser().is_dir():
                self._log.raw(tracebacks.missing_folder(path, drafter=is_drafter))
                raise StartFailedError(1)
        self._log.main(
            f"server_args={{'simulated': True, 'model_path': {options.model!r}, 'tp_size': {options.tp}, "
            f"'host': {options.host!r}, 'port': {options.port}, 'attention_backend': {options.attention_backend!r}, "
            f"'max_running_requests': {options.max_running}, 'speculative_algorithm': {options.algorithm or None!r}, "
            f"'speculative_draft_model_path': {options.drafter or None!r}, 'speculative_num_steps': {options.depth}, "
            f"'speculative_eagle_topk': {options.topk}, 'speculative_num_draft_tokens': {options.draft_tokens}, "
            f"'speculative_adaptive': {options.tiers is not None}, 'enable_metrics': {options.metrics}}}"
        )

    async def run(self) -> None:
        """From the first scheduler line to the KV pool and the graphs; the HTTP server comes after it."""
        await self._distributed()
        await self._weights()
        await self._pool()
        await self._graphs()
        self._done()

    async def _sleep(self, share: float) -> None:
        await asyncio.sleep(self._pace * share)

    def _ranks(self, text: str) -> None:
        for rank in range(self._options.tp):
            self._log.rank(text, rank)

    async def _distributed(self) -> None:
        self._progress("init", 0.0, 0.0, 0.0)
        self._log.main("Using default HuggingFace chat template with detected content format: string")
        await self._sleep(0.15)
        self._ranks("Init torch distributed begin.")
        start = time.monotonic()
        await self._sleep(0.05)
        self._ranks(f"Init torch distributed ends. elapsed={time.monotonic() - start:.2f} s, mem usage=1.12 GB")

    async def _weights(self) -> None:
        start = time.monotonic()
        free = GPU_GB - 1.7
        self._ranks(f"Load weight begin. avail mem={free:.2f} GB")
        steps = 10
        for step in range(steps + 1):
            done = round(SHARDS * step / steps)
            seconds = int(time.monotonic() - start)
            rate = done / max(time.monotonic() - start, 0.01)
            self._log.raw(
                f"\nMulti-thread loading shards: {round(100 * done / SHARDS):3d}% Completed | {done}/{SHARDS} "
                f"[00:{seconds:02d}<00:00, {rate:.2f}it/s]"
            )
            self._progress("weights", step / steps, 0.0, 0.0)
            await self._sleep(0.3 / steps)
        free -= WEIGHT_GB
        self._ranks(
            f"Load weight end. elapsed={time.monotonic() - start:.2f} s, type=KimiK25ForConditionalGeneration, "
            f"avail mem={free:.2f} GB, mem usage={WEIGHT_GB:.2f} GB."
        )
        if self._options.speculative:
            begin = time.monotonic()
            self._ranks(f"Load weight begin. avail mem={free:.2f} GB")
            self._log.raw("\nMulti-thread loading shards:   0% Completed | 0/1 [00:00<?, ?it/s]")
            await self._sleep(0.05)
            self._log.raw("Multi-thread loading shards: 100% Completed | 1/1 [00:00<00:00, 12.11it/s]")
            self._ranks(
                f"Load weight end. elapsed={time.monotonic() - begin:.2f} s, type=LlamaForCausalLMEagle3, "
                f"avail mem={free - DRAFTER_GB:.2f} GB, mem usage={DRAFTER_GB:.2f} GB."
            )
            if tiers := self._options.tiers:
                candidates = list(tiers.steps)
                self._ranks(
                    f"AdaptiveSpeculativeParams initialized: steps={self._options.depth}, candidate_steps={candidates}"
                )
        self.seconds["load_weight"] = time.monotonic() - start

    async def _pool(self) -> None:
        start = time.monotonic()
        await self._sleep(0.08)
        self._progress("kv_cache", 1.0, 1.0, 0.0)
        self._ranks(
            f"KV Cache is allocated. dtype: torch.bfloat16, #tokens: {self._options.max_total_tokens}, "
            f"KV size: {KV_GB:.2f} GB"
        )
        self._ranks(f"Memory pool end. avail mem={GPU_GB - 1.7 - WEIGHT_GB - DRAFTER_GB - KV_GB:.2f} GB")
        self.seconds["kv_cache_allocation"] = time.monotonic() - start

    async def _graphs(self) -> None:
        start = time.monotonic()
        options = self._options
        kinds = [("target verify", options.draft_tokens)] if options.speculative else [("decode", 1)]
        if options.speculative:
            kinds += [("draft decode", 1), ("draft extend", options.draft_tokens)]
        free = GPU_GB - 1.7 - WEIGHT_GB - DRAFTER_GB - KV_GB
        share = 0.3 / len(kinds)
        for number, (kind, width) in enumerate(kinds):
            begin = time.monotonic()
            self._ranks(
                f"Capture {kind} CUDA graph begin. backend=full, num_tokens_per_req={width}, bs={list(GRAPH_BATCHES)}, "
                f"avail mem={free:.2f} GB"
            )
            await self._capture(kind, free, share, number / len(kinds), 1 / len(kinds))
            used = GRAPH_GB / len(kinds)
            free -= used
            self._ranks(
                f"Capture {kind} CUDA graph end. elapsed={time.monotonic() - begin:.2f} s, mem usage={used:.2f} GB, "
                f"avail mem={free:.2f} GB."
            )
        for step in options.tiers.steps if options.tiers else ():
            if step != options.depth:
                begin = time.monotonic()
                await self._sleep(0.01)
                self._ranks(
                    f"Built adaptive runtime state steps={step}: elapsed={time.monotonic() - begin:.2f}s, mem=0.15GB"
                )
        self.seconds["cuda_graph"] = time.monotonic() - start

    async def _capture(self, kind: str, free: float, share: float, done: float, part: float) -> None:
        total = len(GRAPH_BATCHES)
        for index, batch in enumerate(reversed(GRAPH_BATCHES)):
            self._log.raw(
                f"Capturing batches (bs={batch} avail_mem={free:.2f} GB): {round(100 * index / total):3d}%|"
                f"{'█' * index:<{total}}| {index}/{total} [00:00<00:00, 9.41it/s]"
            )
            self._progress("graphs", 1.0, 1.0, done + part * index / total)
            await self._sleep(share / total)
            if index == total // 2:
                self._die_where_a_real_one_would(kind)

    def _die_where_a_real_one_would(self, kind: str) -> None:
        options = self._options
        if "oom_at_graph_capture" in options.faults and kind in {"target verify", "decode"}:
            for rank in range(options.tp):
                self._crash(tracebacks.out_of_memory(rank), rank)
            raise self._sigquit()
        if kind == "draft decode" and ("drafter_wrong_shape" in options.faults or not fits(options.drafter)):
            for rank in range(options.tp):
                self._crash(tracebacks.wrong_shape(), rank)
            raise self._sigquit()

    def _crash(self, text: str, rank: int) -> None:
        self._log.rank("Scheduler hit an exception: Traceback (most recent call last):", rank)
        self._log.raw(text)

    def _sigquit(self) -> StartFailedError:
        self._log.main("Received sigquit from a child process. It usually means the child failed.")
        return StartFailedError(-9)

    def _done(self) -> None:
        options, seconds = self._options, self.seconds
        total = sum(seconds.values())
        self._log.rank(
            f"max_total_num_tokens={options.max_total_tokens}, chunked_prefill_size=8192, max_prefill_tokens=16384, "
            f"max_running_requests={options.max_running}, context_len={options.context_length}, "
            f"available_gpu_mem={GPU_GB - 1.7 - WEIGHT_GB - DRAFTER_GB - KV_GB - GRAPH_GB:.2f} GB"
        )
        graph = seconds["cuda_graph"]
        self._log.main(
            f"Engine startup timings (s): load_weight={seconds['load_weight']:.2f}, "
            f"kv_cache_allocation={seconds['kv_cache_allocation']:.2f}, scheduler_e2e={total:.2f}, "
            f"cuda_graph={{prefill=0.00, decode=0.00, target_verify={graph / 3:.2f}, draft_prefill=0.00, "
            f"draft_decode={graph / 3:.2f}, draft_extend={graph / 3:.2f}}}, tokenizer_e2e={self._pace * 0.1:.2f}"
        )
        self._progress("http", 1.0, 1.0, 1.0)
