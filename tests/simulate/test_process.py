"""The simulated engine as a process: its start, routes, commands, faults and end."""

from __future__ import annotations

import json
import re
import signal
import socket
import time
from pathlib import Path

import pytest
import zmq

FIXTURES = Path(__file__).parents[1] / "fixtures/cpu-0.5.23/main/main"


def gone(pids, seconds: float = 3) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.02)
    return False


def test_the_log_says_simulated_first_and_tells_the_phases_in_order(start, eagle):
    engine = start(*eagle).ready()
    lines = engine.log.splitlines()
    assert "SIMULATED" in lines[0]
    marks = (
        "Init torch distributed begin",
        "Load weight begin",
        "type=KimiK25ForConditionalGeneration",
        "type=LlamaForCausalLMEagle3",
        "KV Cache is allocated",
        "Capture target verify CUDA graph begin",
        "Capture draft extend CUDA graph end",
        "Built adaptive runtime state steps=5",
        "Engine startup timings",
        "Uvicorn running",
        "fired up and ready to roll",
    )
    places = [next(number for number, line in enumerate(lines) if mark in line) for mark in marks]
    assert places == sorted(places)
    assert len([line for line in lines if "Load weight begin" in line]) == 16


def test_workers_are_titled_as_sglangs(serving):
    titles = sorted(serving.children().values())
    assert titles == ["sglang::detokenizer", *(f"sglang::scheduler_TP{rank}" for rank in range(8))]


def test_one_rank_has_no_tag(start):
    engine = start("--tp", "1", "--sim-clients", "1", "--decode-log-interval", "5").ready()
    engine.wait_for("Decode batch")
    assert "TP0" not in engine.log
    assert sorted(engine.children().values()) == ["sglang::detokenizer", "sglang::scheduler"]


def test_read_routes_have_the_real_ones_shape(serving):
    for path, fixture in (
        ("/model_info", "http_idle/model_info.txt"),
        ("/v1/models", "http_idle/v1_models.txt"),
        ("/v1/loads", "http_load/v1_loads.txt"),
        ("/server_info", "http_load/server_info.txt"),
    ):
        status, answer = serving.get(path)
        real = json.loads((FIXTURES / fixture).read_text())
        assert status == 200
        assert_same_shape(answer, real, path)


def assert_same_shape(ours, real, where: str) -> None:
    """Every key of ours is one of the real engine's (or says that this is a simulation), with a value of its kind."""
    if isinstance(ours, dict) and isinstance(real, dict):
        for key, value in ours.items():
            if key == "simulated":
                continue
            assert key in real, f"{where}.{key}"
            if real[key] is not None and value is not None:
                assert_same_shape(value, real[key], f"{where}.{key}")
    elif isinstance(ours, list) and isinstance(real, list):
        for one, other in zip(ours, real, strict=False):
            assert_same_shape(one, other, where)
    elif isinstance(real, bool | str):
        assert isinstance(ours, type(real)), where
    else:
        assert isinstance(ours, int | float), where


def test_server_info_says_simulated_and_masks_keys(start, eagle):
    engine = start(*eagle, "--api-key", "s3cret", "--admin-api-key", "t0psecret").ready()
    assert engine.get("/server_info")[0] == 401
    status, info = engine.get("/server_info", headers={"Authorization": "Bearer s3cret"})
    assert status == 200
    assert info["simulated"] is True
    assert "s3cret" not in json.dumps(info)
    assert "t0psecret" not in json.dumps(info)
    for path, key, expected in (
        ("/ping", "", 200),
        ("/ready", "", 200),
        ("/metrics", "", 200),
        ("/flush_cache", "s3cret", 401),
        ("/flush_cache", "t0psecret", {200, 400}),
    ):
        status, _ = engine.get(path, headers={"Authorization": f"Bearer {key}"})
        assert status == expected or (isinstance(expected, set) and status in expected), path


def test_generate_answers_with_a_histogram(serving):
    status, answer = serving.get(
        "/generate", {"text": "one two", "sampling_params": {"max_new_tokens": 40}}, timeout=15
    )
    meta = answer["meta_info"]
    assert status == 200
    assert meta["completion_tokens"] == len(answer["output_ids"]) == len(answer["text"].split()) == 40
    assert sum(meta["spec_correct_drafts_histogram"]) == meta["spec_verify_ct"]
    assert meta["spec_accept_length"] == pytest.approx(40 / meta["spec_verify_ct"])
    assert meta["prompt_tokens"] == 2
    status, chat = serving.get(
        "/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 8}
    )
    assert (status, chat["usage"]["completion_tokens"]) == (200, 8)


def test_pausing_is_seen_by_ready(serving):
    assert serving.get("/ready")[0] == 200
    assert serving.get("/pause_generation", {"mode": "retract"})[0] == 200
    assert serving.get("/ready")[0] == 503
    assert serving.get("/flush_cache")[0] == 200
    assert serving.get("/continue_generation", {"torch_empty_cache": False})[0] == 200
    assert serving.get("/ready")[0] == 200


def test_unknown_internal_state_is_refused_the_way_sglang_does(start):
    engine = start("--sim-no-probe").ready()
    assert engine.get("/set_internal_state", {"server_args": {"speculative_num_steps": 3}}) == (200, [False])
    assert engine.get("/set_internal_state", {"server_args": {"spec_console_cmd": 1}}) == (200, [False])
    assert engine.get("/set_internal_state", {"server_args": {"speculative_accept_threshold_acc": 1.0}}) == (
        200,
        [True],
    )
    assert "Updating speculative_num_steps is not supported." in engine.log


def test_metrics_are_404_when_they_are_off(start):
    assert start().ready().get("/metrics")[0] == 404


# ------------------------------------------------------------------------------------------------- the feed


def test_every_rank_publishes_and_leaves_its_newest_message(start, eagle):
    engine = start(*eagle, env={"SGLANG_ENABLE_METRICS_DEVICE_TIMER": "1", "NCCL_CUMEM_ENABLE": "0"}).ready()
    context = zmq.Context()
    messages = {}
    try:
        for rank in (0, 7):
            with context.socket(zmq.SUB) as socket_:
                socket_.set(zmq.SUBSCRIBE, b"")
                socket_.set(zmq.RCVTIMEO, 4000)
                socket_.connect(f"ipc://{engine.folder}/probe-{rank}.sock")
                messages[rank] = [json.loads(socket_.recv()) for _ in range(3)]
    finally:
        context.destroy(linger=0)
    first, *_, last = messages[7]
    assert (last["rank"], last["tp"], last["schema"], last["sglang"]) == (7, 8, 1, "0.5.23")
    assert last["seq"] == first["seq"] + 2
    assert 0.2 <= last["at_s"] - first["at_s"] <= 2.0
    assert last["pid"] in engine.children()
    assert last["capabilities"]["candidate_steps"] == [0, 1, 2, 3, 5]
    assert last["environment"]["NCCL_CUMEM_ENABLE"] == "0"
    assert last["stages"]["verify"]["count"] >= first["stages"]["verify"]["count"]
    deadline = time.monotonic() + 3
    while not (engine.folder / "probe-3.json").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert json.loads((engine.folder / "probe-3.json").read_text())["rank"] == 3


def test_without_probe_there_is_no_feed(start, eagle):
    engine = start(*eagle, "--sim-no-probe").ready()
    time.sleep(0.4)
    assert not list(engine.folder.glob("probe-*"))
    assert (engine.folder / "simulated-engine.json").exists()


def test_depth_and_swap_commands(start, eagle):
    engine = start(*eagle, "--sim-clients", "1").ready()
    ok, acks = engine.command(1, {"op": "depth", "depth": 3})
    assert ok
    assert len(acks) == 8
    assert all(ack["ok"] for ack in acks)
    deadline = time.monotonic() + 3
    while engine.get("/server_info")[1]["internal_states"][0]["speculative_num_steps"] != 3:
        assert time.monotonic() < deadline
    assert engine.get("/server_info")[1]["speculative_num_steps"] == 2
    before = engine.get("/weights_checker", {"action": "checksum", "selector": "draft"})[1]["per_engine_checksum"]
    ok, acks = engine.command(2, {"op": "swap", "path": "sim/kimi-k2-instruct-eagle3"})
    assert ok
    after = engine.get("/weights_checker", {"action": "checksum", "selector": "draft"})[1]
    assert before != after["per_engine_checksum"] == acks[0]["checksum"]
    assert len(after["ranks"]) == 8
    assert engine.command(3, {"op": "ping"})[0]
    assert engine.command(4, {"op": "depth", "depth": None})[0]


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        ({"op": "depth", "depth": 4}, "no prebuilt state"),
        ({"op": "swap", "path": "sim/wrong-shape"}, "hidden_size"),
        ({"op": "swap", "path": "/no/such/folder"}, "no such folder"),
        ({"op": "swap"}, "names a path"),
        ({"op": "dance"}, "no command"),
    ],
)
def test_refused_commands_say_why_and_change_nothing(serving, payload, why):
    ok, acks = serving.command(9, payload)
    assert not ok
    assert [why in ack["message"] for ack in acks] == [True] * 8
    assert serving.get("/server_info")[1]["internal_states"][0]["speculative_num_steps"] == 2


# --------------------------------------------------------------------------------------------------- the end


def test_sigterm_drains_then_ends_with_zero_and_nothing_left(start, eagle):
    engine = start(*eagle, "--sim-clients", "3").ready()
    pids = [engine.process.pid, *engine.children()]
    engine.process.send_signal(signal.SIGTERM)
    assert engine.process.wait(10) == 0
    assert gone(pids)
    assert "Gracefully exiting... Remaining number of requests 0" in engine.log
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", engine.port))
    assert not list(engine.folder.glob("probe-*"))
    assert not (engine.folder / "simulated-engine.json").exists()


def test_exit_code_of_older_releases(start):
    engine = start("--sim-fault", "exit_code:-9").ready()
    engine.process.send_signal(signal.SIGTERM)
    assert engine.process.wait(10) == -9


def test_sigterm_can_be_ignored(start):
    engine = start("--sim-fault", "ignore_sigterm").ready()
    engine.process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert engine.process.poll() is None


def test_kill_of_the_launcher_takes_the_workers_along(start):
    engine = start().ready()
    children = list(engine.children())
    engine.process.kill()
    engine.process.wait(5)
    assert gone(children)


def test_a_dead_scheduler_ends_the_engine_with_its_name_in_the_log(start):
    engine = start().ready()
    pids = [engine.process.pid, *engine.children()]
    assert engine.get("/sim/fault", {"kind": "scheduler_crash", "argument": 3})[0] == 200
    assert engine.process.wait(10) == -9
    assert gone(pids)
    assert re.search(r"Subprocess scheduler_3 \(pid=\d+\) crashed with exit code -9", engine.log)


def test_crash_by_request(start):
    engine = start().ready()
    engine.get("/sim/fault", {"kind": "crash"})
    assert engine.process.wait(5) == -9


# ------------------------------------------------------------------------------------------------- the faults


def test_out_of_memory_at_graph_capture(start, eagle):
    engine = start(*eagle, "--sim-fault", "oom_at_graph_capture")
    assert engine.process.wait(10) == -9
    assert engine.log.count("CUDA out of memory. Tried to allocate") == 8
    assert "Received sigquit from a child process" in engine.log


def test_wrong_drafter_dies_at_graph_capture(start, eagle):
    flags = [flag.replace("sim/own-37k", "/tmp") for flag in eagle]
    engine = start(*flags, "--sim-fault", "drafter_wrong_shape")
    assert engine.process.wait(10) == -9
    assert "Check failed: input.size(1) == weight.size(0)" in engine.log


def test_missing_drafter_folder_ends_with_one(start, eagle):
    flags = [flag.replace("sim/own-37k", "/no/such/drafter") for flag in eagle]
    engine = start(*flags)
    assert engine.process.wait(10) == 1
    assert "OSError: Repo id must be in the form" in engine.log


def test_taken_port_never_exits(start):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        engine = start(port=taken.getsockname()[1])
        engine.wait_for("error while attempting to bind on address")
        time.sleep(0.3)
        assert engine.process.poll() is None
        assert len(engine.children()) == 9


def test_hang_takes_connections_and_answers_nothing(serving):
    serving.get("/sim/fault", {"kind": "hang"})
    with pytest.raises(TimeoutError):
        serving.get("/v1/loads", timeout=0.5)
    serving.get("/sim/fault", {"kind": "hang", "clear": True})
    assert serving.get("/v1/loads")[0] == 200


def test_bad_metrics(serving):
    serving.get("/sim/fault", {"kind": "metrics_garbage"})
    assert isinstance(serving.get("/metrics")[1], bytes)
    serving.get("/sim/fault", {"kind": "all", "clear": True})
    assert b"sglang:gen_throughput" in serving.get("/metrics")[1]


def test_log_flood_and_truncation(start):
    engine = start("--sim-clients", "none").ready()
    engine.get("/sim/fault", {"kind": "log_flood", "argument": 2000})
    engine.wait_for("one of very many")
    engine.get("/sim/fault", {"kind": "all", "clear": True})
    time.sleep(0.3)
    engine.get("/sim/fault", {"kind": "log_truncate"})
    assert engine.log_path.stat().st_size < 2000


def test_unknown_fault_is_refused(serving):
    status, answer = serving.get("/sim/fault", {"kind": "melt"})
    assert status == 400
    assert "no fault 'melt'" in answer["error"]


def test_refused_flags_end_with_one_line(start):
    engine = start("--speculative-algorithm", "EAGLE3", "--speculative-num-steps", "2")
    assert engine.process.wait(10) == 1
    assert engine.log.startswith("ValueError: '>' not supported")
