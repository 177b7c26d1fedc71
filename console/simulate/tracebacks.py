"""What SGLang prints when a start dies: its own frames, shortened, with this launch's names put in."""

from __future__ import annotations

_SGLANG = "/opt/sglang/lib/sglang/srt"
_HUB = "/opt/sglang/lib/transformers/utils/hub.py"


def _frames(*frames: tuple[str, int, str, str]) -> str:
    """Python's own layout of a stack: file, line, function, source."""
    return "\n".join(
        f'  File "{file}", line {line}, in {function}\n    {source}' for file, line, function, source in frames
    )


_SCHEDULER = (
    (f"{_SGLANG}/managers/scheduler.py", 6345, "run_scheduler_process", "scheduler = Scheduler("),
    (f"{_SGLANG}/managers/scheduler.py", 640, "__init__", "self.init_model_worker()"),
)
_CAPTURE_ADVICE = (
    "Possible solutions:\n"
    "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n"
    "2. set --cuda-graph-max-bs-decode to a smaller value (e.g., 16)\n"
    "3. disable decode CUDA graph by --cuda-graph-backend-decode=disabled. (Not recommended. Huge performance loss)\n"
    "Open an issue on GitHub https://github.com/sgl-project/sglang/issues/new/choose \n"
)


def out_of_memory(rank: int) -> str:
    """CUDA's own words while the target's verify graphs are captured."""
    stack = _frames(
        *_SCHEDULER,
        (
            f"{_SGLANG}/model_executor/cuda_graph_setup.py",
            690,
            "capture_decode_graph",
            "runner = DecodeCudaGraphRunner(self)",
        ),
        (f"{_SGLANG}/model_executor/runner/decode_cuda_graph_runner.py", 603, "__init__", "raise Exception("),
    )
    return (
        f"{stack}\nException: Capture cuda graph failed: CUDA out of memory. Tried to allocate 1.94 GiB. GPU {rank} has a "
        "total capacity of 139.80 GiB of which 1.11 GiB is free. Including non-PyTorch memory, this process has 138.68 GiB "
        f"memory in use.\n{_CAPTURE_ADVICE}"
    )


def wrong_shape() -> str:
    """A drafter of another hidden size meets the target's hidden states."""
    stack = _frames(
        *_SCHEDULER,
        (
            f"{_SGLANG}/speculative/eagle_worker_v2.py",
            520,
            "init_cuda_graphs",
            "self.cuda_graph_runner = EAGLEDraftCudaGraphRunner(self)",
        ),
        (f"{_SGLANG}/models/llama_eagle3.py", 247, "forward", "hidden_states = self.hidden_norm(hidden_states)"),
        (
            f"{_SGLANG}/layers/layernorm.py",
            486,
            "forward_cuda",
            "out = rmsnorm(x, self.weight.data, self.variance_epsilon)",
        ),
    )
    return f"{stack}\nRuntimeError: Check failed: input.size(1) == weight.size(0) (7168 vs. 4096) : \n"


def missing_folder(path: str, *, drafter: bool) -> str:
    """A local folder that is not there is taken for a repository's name."""
    where = (
        (
            f"{_SGLANG}/arg_groups/speculative_hook.py",
            98,
            "handle_speculative_decoding",
            "server_args.speculative_algorithm = (",
        )
        if drafter
        else (f"{_SGLANG}/configs/model_config.py", 1290, "from_server_args", "return ModelConfig(")
    )
    stack = _frames(
        ("/opt/sglang/lib/sglang/launch_server.py", 79, "<module>", "server_args = prepare_server_args(sys.argv[1:])"),
        (f"{_SGLANG}/server_args.py", 9380, "prepare_server_args", "return ServerArgs.from_cli_args(raw_args)"),
        where,
        (f"{_SGLANG}/utils/hf_transformers/config.py", 252, "get_config", "config = parser.parse("),
        (_HUB, 488, "cached_files", 'raise OSError(f"{e}") from e'),
    )
    return (
        f"Traceback (most recent call last):\n{stack}\nOSError: Repo id must be in the form 'repo_name' or "
        f"'namespace/repo_name': '{path}'. Use `repo_type` argument if needed."
    )
