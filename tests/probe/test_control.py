"""Depth, commands, places, files, environment: what needs no torch."""

import json
import os
import sys
import time
from types import ModuleType, SimpleNamespace

import pytest


class Policy:
    def get_steps_for_batch(self, batch_size):
        return 2

    def on_verify_complete(self, accepted, batch_size):
        return 1


class Controller:
    def __init__(self, policy):
        self._states = dict.fromkeys((0, 1, 2, 3, 5))
        self.params = policy
        self.activated = []

    def _activate(self, steps):
        self.activated.append(steps)

    def on_verify_complete(self, accepted):
        return "the policy's own"


def depth_of(policy=None, live_why="", controller=True):
    from sglang_console_probe.depth import Depth

    made = Controller(policy or Policy()) if controller else None
    return Depth(SimpleNamespace(adaptive_controller=made, speculative_num_steps=3), live_why), made


# ---------------------------------------------------------------------------------------------------- depth


def test_a_pin_answers_for_the_policy_and_gives_it_back():
    depth, controller = depth_of()
    assert depth.steps == [0, 1, 2, 3, 5]
    depth.pin(5)
    assert controller.params.get_steps_for_batch(7) == 5
    assert controller.params.on_verify_complete([1], 1) is None
    depth.pin(0)
    assert controller.params.get_steps_for_batch(batch_size=7) == 0
    depth.pin(None)
    assert controller.params.get_steps_for_batch(7) == 2
    assert controller.params.on_verify_complete([1], 1) == 1
    assert depth.pinned is None
    depth.pin(None)  # twice does no harm


def test_before_0_5_13_the_controller_is_told_itself():
    depth, controller = depth_of(SimpleNamespace())
    depth.pin(2)
    assert controller.activated == [2]
    assert controller.on_verify_complete([1]) is None
    depth.pin(None)
    assert controller.on_verify_complete([1]) == "the policy's own"


@pytest.mark.parametrize("wanted", [4, -1, 6, 2.0, "3", True, [1]])
def test_what_was_not_built_is_refused(wanted):
    from sglang_console_probe.depth import DepthRefused

    depth, controller = depth_of()
    with pytest.raises(DepthRefused):
        depth.check(wanted)
    assert controller.params.get_steps_for_batch(1) == 2


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"controller": False}, "without adaptive tiers"),
        ({"live_why": "the engine runs pipeline stages"}, "pipeline"),
    ],
)
def test_why_depth_is_fixed(options, why):
    from sglang_console_probe.depth import DepthRefused

    depth, _ = depth_of(**options)
    assert why in depth.why
    assert depth.steps == []
    with pytest.raises(DepthRefused, match=why):
        depth.check(None)


# ------------------------------------------------------------------------------------------------- commands


class Reply(SimpleNamespace):
    pass


@pytest.fixture
def sglang(monkeypatch):
    """The one class of SGLang's that the commands make."""
    io_struct = ModuleType("sglang.srt.managers.io_struct")
    io_struct.SetInternalStateReqOutput = lambda updated: Reply(updated=updated)
    for name in ("sglang", "sglang.srt", "sglang.srt.managers"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, io_struct.__name__, io_struct)
    return io_struct


@pytest.fixture
def commands(tmp_path, sglang):
    from sglang_console_probe.commands import Commands
    from sglang_console_probe.place import Place
    from sglang_console_probe.swap import Outcome

    calls = []

    def work(payload, number, agreement):
        calls.append(payload)
        if payload.get("fail"):
            raise RuntimeError("went wrong")
        return Outcome(ok=not payload.get("no"), message="did it", seconds={"total": 0.5}, checksum="abc")

    made = Commands(tmp_path, Place(0, 1, 1), {"work": work})
    made.hook.enable()
    made.calls = calls
    return made


def send(commands, folder, payload, number=7, **more):
    if payload is not None:
        (folder / f"cmd-{number}.json").write_text(payload if isinstance(payload, str) else json.dumps(payload))
    request = SimpleNamespace(server_args={"spec_console_cmd": number, **more})
    seen = []

    def original(scheduler, recv_req):
        seen.append(dict(recv_req.server_args))
        return Reply(updated=True)

    answer = commands.around(original, (None, request), {})
    path = folder / f"ack-{number}-0.json"
    return answer.updated, json.loads(path.read_text()) if path.exists() else None, seen


def test_a_command_is_done_and_answered(commands, tmp_path):
    updated, ack, seen = send(commands, tmp_path, {"op": "work"})
    assert updated
    assert (ack["ok"], ack["message"], ack["seconds"], ack["checksum"], ack["rank"]) == (
        True, "did it", {"total": 0.5}, "abc", 0,
    )  # fmt: skip
    assert seen == []  # SGLang does not see the probe's key


def test_a_number_is_executed_once(commands, tmp_path):
    assert send(commands, tmp_path, {"op": "work"})[0]
    assert send(commands, tmp_path, None)[0]
    assert len(commands.calls) == 1


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({"op": "work", "no": True}, "did it"),
        ({"op": "work", "fail": True}, "RuntimeError: went wrong"),
        ({"op": "dance"}, "no command 'dance'; there are work"),
        ({}, "no command 'None'"),
        ("[1]", "holds no JSON object"),
        ("{", "cmd-7.json: "),
        ("x" * 70_000, "larger than"),
        (None, "cmd-7.json is not there"),
    ],
)
def test_what_cannot_be_done_is_answered_with_the_reason(commands, tmp_path, payload, message):
    updated, ack, _ = send(commands, tmp_path, payload)
    assert not updated
    assert message in ack["message"]
    assert commands.hook.on  # that is the command's fault, not the channel's


def test_sglang_gets_the_other_keys(commands, tmp_path):
    updated, _, seen = send(commands, tmp_path, {"op": "work"}, speculative_accept_threshold_single=1.0)
    assert updated
    assert seen == [{"speculative_accept_threshold_single": 1.0}]


def test_requests_without_the_key_are_sglangs(commands):
    for args in ({"pp_max_micro_batch_size": 1}, {}, None):
        request = SimpleNamespace(server_args=args)
        assert commands.around(lambda *_: "sglang", (None, request), {}) == "sglang"


def test_an_error_in_the_channel_turns_it_off_and_is_answered_from_then_on(commands, tmp_path):
    commands.hook.trap = True
    for number in (7, 8):
        updated, ack, _ = send(commands, tmp_path, {"op": "work"}, number=number)
        assert not updated
        assert ack["message"] == "commands: off: RuntimeError: injected fault"


@pytest.mark.parametrize("number", ["seven", None, [1]])
def test_a_number_that_is_none_is_refused_without_harm(commands, tmp_path, number):
    request = SimpleNamespace(server_args={"spec_console_cmd": number})
    assert not commands.around(None, (None, request), {}).updated


def test_a_folder_that_cannot_be_written_is_survived(commands, tmp_path, monkeypatch):
    from sglang_console_probe import commands as module

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(module, "write_whole", full)
    updated, ack, _ = send(commands, tmp_path, {"op": "work"})
    assert (updated, ack) == (True, None)


def test_older_replies_carry_the_arguments(sglang):
    from sglang_console_probe.commands import reply

    def until_0_5_15(updated, server_args):
        return Reply(updated=updated, server_args=server_args)

    sglang.SetInternalStateReqOutput = until_0_5_15
    assert reply(ok=True) == Reply(updated=True, server_args={})


def test_old_files_are_swept_by_the_first_rank(commands, tmp_path):
    from sglang_console_probe.commands import KEPT_S

    old, young, feed = tmp_path / "vote-1-ready-0.json", tmp_path / "ack-6-1.json", tmp_path / "probe-0.json"
    for path in (old, young, feed):
        path.write_text("{}")
    for path in (old, feed):
        os.utime(path, (time.time() - KEPT_S - 5,) * 2)
    send(commands, tmp_path, {"op": "work"})
    assert (old.exists(), young.exists(), feed.exists()) == (False, True, True)


# --------------------------------------------------------------------------------------------------- places


@pytest.mark.parametrize(
    ("ranks", "rank", "count", "refused"),
    [
        ({"tp_rank": 3, "tp_size": 8}, 3, 8, False),
        ({"tp_rank": 1, "tp_size": 4, "pp_rank": 1, "pp_size": 2}, 5, 8, True),
        ({"tp_rank": 1, "tp_size": 2, "dp_rank": 1, "dp_size": 2}, 3, 4, True),
        ({"tp_rank": 1, "tp_size": 2, "dp_rank": None, "dp_size": 1}, 1, 2, False),
        ({"tp_rank": 3, "tp_size": 4, "dp_rank": 1, "dp_size": 2, "attn_dp_size": 2}, 3, 4, False),
    ],
)
def test_ranks_are_unique_in_every_layout(ranks, rank, count, refused):
    from sglang_console_probe.place import place_of

    for scheduler in (SimpleNamespace(ps=SimpleNamespace(**ranks)), SimpleNamespace(**ranks)):
        place = place_of(scheduler)
        assert (place.rank, place.ranks, bool(place.live_why)) == (rank, count, refused)


def test_since_0_5_21_the_ranks_are_in_the_context(monkeypatch):
    from sglang_console_probe.place import place_of

    context = ModuleType("sglang.srt.runtime_context")
    context.get_parallel = lambda: SimpleNamespace(tp_rank=2, tp_size=4)
    for name in ("sglang", "sglang.srt"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, context.__name__, context)
    assert place_of(SimpleNamespace()).rank == 2


def test_ranks_that_are_nowhere_are_an_error(monkeypatch):
    from sglang_console_probe.place import place_of

    monkeypatch.setitem(sys.modules, "sglang", None)
    with pytest.raises(AttributeError, match="keeps its ranks"):
        place_of(SimpleNamespace())


# ---------------------------------------------------------------------------------------------- environment


def test_the_environment_is_masked_and_clean():
    from sglang_console_probe.environment import VALUE_LIMIT, own_environment

    found = own_environment(
        {
            "NCCL_DEBUG": "WARN",
            "SGLANG_API_KEY": "sk-1",
            "SGLANG_HF_TOKEN": "hf_1",
            "CUDA_PROXY": "http://user:word@host/",
            "NCCL_X": "a\x1b[31m\nb",
            "SGLANG_LONG": "x" * 5000,
            "HOME": "/home/me",
        }
    )
    assert found == {
        "CUDA_PROXY": "http://***@host/",
        "NCCL_DEBUG": "WARN",
        "NCCL_X": "a?[31m?b",
        "SGLANG_API_KEY": "***",
        "SGLANG_HF_TOKEN": "***",
        "SGLANG_LONG": "x" * VALUE_LIMIT,
    }


# ---------------------------------------------------------------------------------------------------- files


def test_a_file_is_created_by_one_of_many(tmp_path):
    from sglang_console_probe.files import create_whole, read_object

    path = tmp_path / "decision.json"
    assert read_object(path) is None
    assert create_whole(path, b'{"go": true}')
    assert not create_whole(path, b'{"go": false}')
    assert read_object(path) == {"go": True}
    assert list(tmp_path.iterdir()) == [path]


# ----------------------------------------------------------------------------------------------------- bank


class Copy:
    def __init__(self, size):
        self._size = size

    def numel(self):
        return self._size

    def element_size(self):
        return 1


def kept(*steps):
    from sglang_console_probe.bank import Bank, Resident

    bank = Bank()
    for path, most, most_bytes in steps:
        bank.put(Resident(path, "print", "sum", [(None, Copy(10))]), most, most_bytes)
    return bank


@pytest.mark.parametrize(
    ("steps", "left"),
    [
        ([("a", 1, None), ("b", 1, None)], ["b"]),
        ([("a", 2, None), ("b", 2, None), ("a", 2, None), ("c", 2, None)], ["a", "c"]),
        ([("a", 9, 25), ("b", 9, 25), ("c", 9, 25)], ["b", "c"]),
        ([("a", 9, 5)], []),
        ([("a", 0, None)], []),
    ],
)
def test_the_bank_keeps_to_its_limits(steps, left):
    assert kept(*steps).paths == left


def test_a_folder_that_changed_is_not_served_from_the_bank():
    bank = kept(("a", 1, None))
    assert bank.get("a", "print") is not None
    assert bank.get("a", "other print") is None
    bank.drop("a")
    assert bank.paths == []
