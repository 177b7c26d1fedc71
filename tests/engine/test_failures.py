"""Causes that no capture holds, built from the exact texts of reports and sources."""

import pytest

from console.engine.log import LogReader

T = "[2026-12-01 01:00:00{}] "


def read(*lines):
    reader = LogReader()
    reader.feed("\n".join(lines) + "\n")
    reader.close()
    return reader.state


def scheduler(exception, *frames, rank="", file="/opt/sglang/srt/managers/scheduler.py"):
    head = T.format(f" {rank}" if rank else "") + "Scheduler hit an exception: Traceback (most recent call last):"
    places = [f'  File "{file}", line 10, in run_scheduler_process', "    scheduler = Scheduler("]
    for frame in frames:
        path, _, function = frame.partition(":")
        places += [f'  File "/opt/lib/sglang/srt/{path}", line 20, in {function or "run"}', "    call()"]
    return [head, *places, exception, ""]


def only(state):
    (cause,) = state.failures
    return cause


@pytest.mark.parametrize(
    ("exception", "frames", "kind", "advice"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried", ["model_loader/loader.py:load_model"], "oom-weights", "--tp"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried", ["model_executor/cuda_graph_runner.py:capture"], "oom-graph", "--cuda-graph-max-bs-decode"),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried",
            ["speculative/eagle_draft_cuda_graph_runner.py:capture"],
            "oom-draft-graph",
            "candidate depths",
        ),
        ("Exception: Capture cuda graph failed: CUDA out of memory", ["cuda_graph_runner.py:__init__"], "oom-graph", "mem-fraction"),
        ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", [], "kv-pool-too-small", "raise"),
        ("KeyError: 'midlayer.self_attn.qkv_proj.weight'", ["models/llama_eagle.py:load_weights"], "draft-class", "architectures"),
        (
            "RuntimeError: size mismatch for lm_head.weight: copying a param with shape torch.Size([32000, 4096]) from checkpoint, the shape in current model is torch.Size([128256, 4096]).",
            ["speculative/eagle_worker.py:__init__"],
            "draft-vocabulary",
            "draft_vocab_size",
        ),
        (
            "ValueError: Target model's context_length (131072) is greater than the derived context_length (2048). Set",
            ["speculative/eagle_worker_v2.py:__init__"],
            "draft-context",
            "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1",
        ),
        ("AssertionError: Currently HybridAttentionBackend does not support speculative decoding.", [], "backend-without-speculation", "backend"),
        ("ValueError: trtllm_mha backend only supports topk = 1 for speculative decoding.", [], "topk-unsupported", "topk 1"),
        ("triton.CompilationError: arange's range must be a power of 2", [], "draft-tokens-power-of-2", "2, 4 or 8"),
        ("TypeError: '>' not supported between instances of 'NoneType' and 'int'", ["arg_groups/speculative_hook.py:h"], "speculation-incomplete", "all three"),
        ("AttributeError: 'X' object has no attribute 'set_embed_and_head'", ["speculative/eagle_worker.py:i"], "draft-path-forgotten", "draft-model-path"),
        ("ValueError: Model architectures ['FooForCausalLM'] are not supported for now.", [], "unsupported-model", "newer SGLang"),
        ("safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge", [], "file-unreadable", "LFS"),
        ("OSError: [Errno 28] No space left on device", [], "disk-full", "disk"),
        ("RuntimeError: No CUDA GPUs are available", [], "no-gpu", "nvidia-smi -L"),
        ("RuntimeError: CUDA error: invalid device ordinal", [], "no-gpu", "--tp"),
        ("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", [], "gpu-lost", "Xid"),
        ("RuntimeError: NCCL error: unhandled system error", [], "nccl", "NCCL_DEBUG"),
        ("RuntimeError: something nobody has seen", ["speculative/eagle_worker_v2.py:maybe_init_draft_worker"], "exception", "maybe_init_draft_worker"),
        ("ImportError: libcudart.so.13: cannot open shared object file", [], "broken-import", "versions"),
        ("huggingface_hub.errors.GatedRepoError: 401 Client Error.", [], "hub-refused", "HF_TOKEN"),
    ],
)  # fmt: skip
def test_known_causes(exception, frames, kind, advice):
    cause = only(read(*scheduler(exception, *frames)))
    assert cause.kind == kind
    assert cause.message == exception
    assert advice in cause.advice


def test_eight_ranks_with_one_cause_are_one_entry():
    lines = [line for rank in range(8) for line in scheduler(f"RuntimeError: shape {rank} is wrong", rank=f"TP{rank}")]
    cause = only(
        read(*lines, T.format("") + "Received sigquit from a child process. It usually means the child failed.")
    )
    assert cause.ranks == tuple(f"TP{rank}" for rank in range(8))


def test_the_first_cause_is_named_and_not_its_followers():
    oom = scheduler("torch.OutOfMemoryError: CUDA out of memory.", "mem_cache/memory_pool.py:_create", rank="TP3")
    lost = scheduler(
        "torch.distributed.DistBackendError: NCCL error in: x, remote process exited or there was a network error",
        rank="TP1",
    )
    died = T.format("") + "Subprocess scheduler_3 (pid=7) crashed with exit code -9. Triggering SIGQUIT for cleanup..."
    cause = only(read(*oom, *lost, died))
    assert (cause.kind, cause.ranks) == ("oom-kv-pool", ("TP3",))


def test_a_follower_is_named_when_nothing_else_is_known():
    cause = only(
        read(
            T.format("") + "server_args=ServerArgs(model_path='x')",
            T.format("") + "Received sigquit from a child process. It usually",
        )
    )
    assert cause.kind == "child-failed"


@pytest.mark.parametrize(("code", "kind"), [(-9, "killed"), (-11, "crashed"), (-15, "terminated"), (1, "child-failed")])
def test_exit_codes_of_a_child(code, kind):
    line = T.format("") + f"Rank 0 scheduler died during initialization (exit code: {code})"
    assert only(read(T.format("") + "Load weight begin. avail mem=1.00 GB", line)).kind == kind


def test_collective_timeout_names_the_rank_of_torch():
    line = (
        "[rank3]:[E1201 01:00:00.1 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=151721,"
        " OpType=_ALLGATHER_BASE, NumelIn=1, Timeout(ms)=600000) ran for 600049 milliseconds before timing out."
    )
    cause = only(read(T.format("") + "Load weight begin. avail mem=1.00 GB", line))
    assert (cause.kind, cause.ranks) == ("nccl-timeout", ("TP3",))
    assert "SeqNum=151721" in cause.message
    assert "--dist-timeout" in cause.advice


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        (
            "launch_server.py: error: ambiguous option: --cuda-graph-max-bs could match --cuda-graph-max-bs-decode",
            "--cuda-graph-max-bs-decode",
        ),
        ("sglang serve: error: unrecognized arguments: --speculative-foo 3", "does not know --speculative-foo"),
        (
            "launch_server.py: error: the following arguments are required: --model-path/--model",
            "give --model-path/--model",
        ),
        ("launch_server.py: error: argument --tp-size/--tp: invalid int value: 'x'", "--tp-size"),
    ],
)
def test_refused_arguments(line, advice):
    state = read("usage: launch_server.py [-h]", line)
    assert state.sglang_lines
    assert only(state).kind == "bad-arguments"
    assert advice in only(state).advice


@pytest.mark.parametrize(
    ("line", "port"),
    [
        (
            "ERROR:    [Errno 98] error while attempting to bind on address ('::', 30000, 0, 0): address already in use",
            "30000",
        ),
        (
            "RuntimeError: metrics_port at 40290 is not available in 30 seconds. metrics_port is used by a process already. process.name()='sglang'",
            "40290",
        ),
    ],
)
def test_ports(line, port):
    cause = only(read(T.format("") + "Load weight begin. avail mem=1.00 GB", T.format("") + line))
    assert cause.kind == "port-taken"
    assert f"port {port}" in cause.advice


def test_environment_without_sglang():
    line = "/usr/bin/python3: Error while finding module specification for 'sglang.launch_server' (ModuleNotFoundError: No module named 'sglang')"
    assert only(read(line)).kind == "missing-module"


def test_an_uncaught_exception_of_another_program_is_not_ours():
    state = read(
        "Traceback (most recent call last):",
        '  File "/home/me/tool.py", line 3, in <module>',
        "    main()",
        "ValueError: no",
    )
    assert state.failures == ()
    assert state.sglang_lines == 0


def test_a_request_that_failed_is_no_failure_of_the_server():
    state = read(
        T.format("") + "The server is fired up and ready to roll!",
        T.format("") + "ERROR:    Exception in ASGI application",
        "Traceback (most recent call last):",
        '  File "/opt/lib/sglang/srt/entrypoints/http_server.py", line 5, in generate',
        "ValueError: input too long",
    )
    assert state.failures == ()
    assert state.errors == 1


def test_what_dies_after_sigterm_was_asked_to():
    state = read(
        T.format("") + "The server is fired up and ready to roll!",
        T.format("") + "SIGTERM received. signum=None frame=None. Draining requests and shutting down...",
        T.format("") + "Subprocess scheduler_0 (pid=7) crashed with exit code -9. Triggering SIGQUIT for cleanup...",
    )
    assert state.failures == ()
    assert state.stopping


def test_the_exception_that_knows_is_taken_from_a_chain():
    lines = scheduler("torch.OutOfMemoryError: CUDA out of memory. Tried", "cuda_graph_runner.py:capture")[:-1]
    lines += [
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        "Traceback (most recent call last):",
    ]
    lines += ['  File "/opt/lib/sglang/srt/x.py", line 2, in y', "Exception: capture did not work"]
    cause = only(read(*lines))
    assert cause.kind == "oom-graph"
    assert cause.message.startswith("torch.OutOfMemoryError")


def test_a_log_of_two_starts_keeps_the_first_ones_failure_and_the_second_ones_phases():
    arguments = (
        T.format("")
        + "server_args=ServerArgs(model_path='/m', speculative_algorithm='EAGLE3', speculative_num_steps={})"
    )
    ready = T.format("") + "The server is fired up and ready to roll!"
    state = read(arguments.format(3), *scheduler("RuntimeError: first"), arguments.format(5), ready)
    assert only(state).message == "RuntimeError: first"
    assert state.ready
    assert state.depth == 5


def test_secrets_do_not_come_through_a_message():
    cause = only(
        read(
            *scheduler(
                "RuntimeError: cannot log in with hf_abcdefghijklmnopqrstuv at https://u:pw12345@host/x?token=zzz"
            )
        )
    )
    assert "hf_abc" not in cause.message
    assert "pw12345" not in cause.message
    assert "zzz" not in cause.message
