"""Checks of the probe's handling of weights, on small models. Runs with the engine's Python, which has torch:

python tests/real/probe_weights.py        prints a JSON object: check -> "" or what went wrong
"""

from __future__ import annotations

import json
import sys
import tempfile
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "console/probe")]

import torch  # noqa: E402
from sglang_console_probe import checksum as checksums  # noqa: E402
from sglang_console_probe.agree import Verdict  # noqa: E402
from sglang_console_probe.checkpoint import CheckpointRefused, load, open_checkpoint  # noqa: E402
from sglang_console_probe.fit import check_map  # noqa: E402
from sglang_console_probe.probe import Probe  # noqa: E402
from sglang_console_probe.swap import Swap  # noqa: E402

from tests.probe.checkpoints import Tensor, read, whole_numbers, write, zeros  # noqa: E402

checksum = checksums.checksum
HIDDEN, VOCABULARY, HOT = 4, 16, 3
CONFIG = {"architectures": ["Toy"], "hidden_size": HIDDEN, "vocab_size": VOCABULARY, "draft_vocab_size": HOT}


def raises(kind: type[BaseException], text: str, call: Any, *args: Any) -> None:
    try:
        call(*args)
    except kind as error:
        assert text in str(error), str(error)
    else:
        raise AssertionError(f"no {kind.__name__} with {text!r}")


# ------------------------------------------------------------------------------------------------- checksum


def check_checksum_sees_every_change() -> None:
    base = {"a": torch.arange(1000, dtype=torch.float32), "b": torch.ones(3, 5, dtype=torch.bfloat16)}
    before = checksum(base)
    assert checksum({name: tensor.clone() for name, tensor in reversed(base.items())}) == before
    changed = [dict(base) for _ in range(5)]
    changed[0]["a"] = base["a"].clone()
    changed[0]["a"][500] = torch.nextafter(base["a"][500], torch.tensor(1e9))  # one bit
    changed[1]["a"] = base["a"].flip(0)  # the same values elsewhere
    changed[2]["b"] = torch.ones(5, 3, dtype=torch.bfloat16)
    changed[3]["b"] = torch.ones(3, 5, dtype=torch.float16)
    changed[4] = {"c": base["a"], "b": base["b"]}
    assert len({before, *map(checksum, changed)}) == 6


def check_checksum_does_not_depend_on_chunks_or_strides() -> None:
    tensor = torch.randn(100, 7)
    whole = checksum({"a": tensor})
    kept, checksums.CHUNK = checksums.CHUNK, 13
    try:
        assert checksum({"a": tensor}) == whole
    finally:
        checksums.CHUNK = kept
    assert checksum({"a": tensor.t().contiguous().t()}) == whole


def check_checksum_takes_every_kind() -> None:
    kinds = [torch.float64, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool]
    found = {checksum({"a": torch.ones(4).to(kind)}) for kind in kinds}
    assert len(found) == len(kinds)
    assert checksum({"a": torch.empty(0)}) != checksum({})


# --------------------------------------------------------------------------------------------------- reading


def folder_with(**tensors: Tensor) -> Path:
    return write(Path(tempfile.mkdtemp()), {name.replace("__", "."): t for name, t in tensors.items()}, CONFIG)


def check_tensors_come_as_they_were_written() -> None:
    path = folder_with(
        a=Tensor("F32", [2], torch.tensor([1.5, -2.0]).numpy().tobytes()),
        b=whole_numbers([-1, 7]),
        c=Tensor("BOOL", [2], b"\x01\x00"),
        d=zeros([0, 4]),
    )
    found = open_checkpoint(path)
    load(found)
    assert found.tensors["a"].tolist() == [1.5, -2.0]
    assert found.tensors["b"].tolist() == [-1, 7]
    assert found.tensors["c"].tolist() == [True, False]
    assert found.tensors["d"].shape == (0, 4)


def check_a_file_that_shrinks_while_it_is_read_is_refused() -> None:
    path = folder_with(a=zeros([4096]))
    found = open_checkpoint(path)
    body = (path / "model.safetensors").read_bytes()
    (path / "model.safetensors").write_bytes(body[:-10])
    raises(CheckpointRefused, "cut off", load, found)
    (path / "model.safetensors").unlink()
    raises(CheckpointRefused, "cannot be read", load, found)


def check_what_cannot_be_loaded_is_refused() -> None:
    raises(
        CheckpointRefused,
        "F8_E4M3, which is not loaded live",
        load,
        open_checkpoint(folder_with(a=zeros([4], "F8_E4M3"))),
    )
    short = Tensor("F32", [4], b"\0" * 8)
    raises(CheckpointRefused, "8 bytes for [4] of F32", load, open_checkpoint(folder_with(a=short)))
    for value in (float("nan"), float("inf")):
        bad = Tensor("F32", [2], torch.tensor([0.0, value]).numpy().tobytes())
        raises(CheckpointRefused, "NaN or infinity", load, open_checkpoint(folder_with(a=bad)))


def check_token_maps() -> None:
    hot = torch.tensor([0, 2, 5])
    check_map(torch.tensor([1, 2, 9]), hot, VOCABULARY)
    check_map(None, None, VOCABULARY)
    for d2t, ids, text in (
        (None, hot, "the running drafter has a token map"),
        (torch.tensor([0]), None, "the offered drafter has a token map"),
        (torch.tensor([0, 0]), hot, "2 entries, serving 3"),
        (torch.tensor([0, 0, VOCABULARY]), hot, "outside"),
        (torch.tensor([-1, 0, 0]), hot, "outside"),
        (torch.tensor([1, 0, 0]), hot, "strictly increasing"),
        (torch.tensor([5, 0, 0]), hot, "strictly increasing"),
        (torch.zeros(3), hot, "no list of whole numbers"),
    ):
        raises(CheckpointRefused, text, check_map, d2t, ids, VOCABULARY)


# -------------------------------------------------------------------------------------------------- exchange


class Toy(torch.nn.Module):
    """A drafter whose loader does what SGLang's do: it rebinds derived tensors and the token map, and shares the target's embedding."""

    def __init__(self, embedding: torch.nn.Parameter) -> None:
        super().__init__()
        self.embed_tokens = torch.nn.Module()
        self.embed_tokens.weight = embedding
        self.fc = torch.nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.norm = torch.nn.Module()
        self.norm.weight = torch.nn.Parameter(torch.ones(HIDDEN))
        self.w_kc = self.fc.weight.detach() * 2
        self.hot_token_id = torch.tensor([0, 1, 2])
        self.fail_at = self.move = self.how = ""

    def load_weights(self, weights: Any) -> None:
        own = dict(self.named_parameters())
        for name, tensor in weights:
            if name == self.fail_at:
                raise RuntimeError("the loader broke")
            if name == "d2t":
                self.hot_token_id = tensor + torch.arange(len(tensor))
            elif name == self.move and self.how == "new object":
                self.fc.weight = torch.nn.Parameter(tensor.float())
            elif name == self.move:
                self.fc.weight.data = tensor.float()
            else:
                own[name].data.copy_(tensor)
        self.w_kc = self.fc.weight.detach() * 2


def drafter_folder(value: float, shift: int = 0, **more: Tensor) -> Path:
    def filled(*shape: int) -> Tensor:
        return Tensor("F32", list(shape), torch.full(shape, value).numpy().tobytes())

    return folder_with(
        fc__weight=filled(HIDDEN, HIDDEN), norm__weight=filled(HIDDEN), d2t=whole_numbers([shift] * HOT), **more
    )


class Engine:
    """A scheduler with a toy drafter that runs the weights of ``home``."""

    def __init__(self) -> None:
        embedding = torch.nn.Parameter(torch.ones(VOCABULARY, HIDDEN))
        self.home, target = drafter_folder(1.0), folder_with(a=zeros([1]))
        self.target = torch.nn.Module()
        self.target.weight = embedding
        self.model = Toy(embedding)
        found = open_checkpoint(self.home)
        load(found)
        self.model.load_weights(found.tensors.items())
        config = SimpleNamespace(model_path=str(self.home), quantization=None)
        runner = SimpleNamespace(model=self.model, model_config=config)
        self.inner = SimpleNamespace(draft_runner=runner, hot_token_id=self.model.hot_token_id.clone())
        target_config = SimpleNamespace(model_path=str(target), vocab_size=VOCABULARY)
        target_runner = SimpleNamespace(model=self.target, model_config=target_config)
        self.draft_worker = SimpleNamespace(draft_worker=self.inner, adaptive_controller=None, speculative_num_steps=3)
        self.tp_worker = SimpleNamespace(model_runner=target_runner)
        self.device = "cpu"
        self.tp_rank, self.tp_size = 0, 1

    @property
    def places(self) -> list[int]:
        """Where the tensors lie that captured graphs read."""
        model = self.model
        return [
            model.fc.weight.data_ptr(),
            model.norm.weight.data_ptr(),
            model.w_kc.data_ptr(),
            self.inner.hot_token_id.data_ptr(),
        ]

    @property
    def values(self) -> list[Any]:
        model = self.model
        return [
            model.fc.weight[0, 0].item(),
            model.norm.weight[0].item(),
            model.w_kc[0, 0].item(),
            self.inner.hot_token_id.tolist(),
        ]


HOME = [1.0, 1.0, 2.0, [0, 1, 2]]


class Vote:
    """An agreement of one rank with others who say ``others`` at each vote."""

    def __init__(self, others: dict[str, str] | None = None) -> None:
        self.others = others or {}
        self.heard: list[str] = []

    def reach(self, phase: str, why: str, of: str = "", within_s: float = 0) -> Verdict:
        self.heard.append(why)
        said = why or self.others.get(phase, "")
        return Verdict(go=not said, why=said)


def swap_of(engine: Engine) -> Swap:
    made = Swap(engine, "", lambda: None)
    assert not made.why, made.why
    return made


def check_a_swap_writes_in_place_and_goes_back_exactly() -> None:
    engine = Engine()
    swap, before, embedding = swap_of(engine), engine.places, engine.target.weight.clone()
    first = swap.checksum
    poison = Tensor("F32", [VOCABULARY, HIDDEN], b"\0" * (4 * VOCABULARY * HIDDEN))
    other = drafter_folder(3.0, shift=5, embed_tokens__weight=poison)
    outcome = swap.commit(str(other), {}, Vote())
    assert outcome.ok, outcome
    assert engine.values == [3.0, 3.0, 6.0, [5, 6, 7]]
    assert engine.places == before
    assert torch.equal(engine.target.weight, embedding)
    assert outcome.checksum == swap.checksum != first
    assert swap.resident == [str(other), str(engine.home)]
    assert {"check", "read", "agree", "save", "load", "checksum", "total"} <= set(outcome.seconds)
    back = swap.commit(str(engine.home), {}, Vote())
    assert back.ok, back
    assert "kept" in back.message
    assert engine.values == HOME
    assert (back.checksum, engine.places) == (first, before)


def check_what_goes_wrong_is_rolled_back() -> None:
    engine = Engine()
    swap, before = swap_of(engine), engine.places
    engine.model.fail_at = "norm.weight"
    outcome = swap.commit(str(drafter_folder(3.0, shift=5)), {}, Vote())
    assert not outcome.ok
    assert "rolled back: RuntimeError: the loader broke" in outcome.message, outcome.message
    assert engine.values == HOME
    assert engine.places == before
    assert outcome.checksum == swap.checksum
    assert swap.path == str(engine.home)


def check_a_loader_that_moves_tensors_is_set_right() -> None:
    for how in ("new object", "new storage"):
        for refusal, values in (("", [3.0, 3.0, 6.0, [5, 6, 7]]), ("rank 1: no", HOME)):
            engine = Engine()
            swap, before, parameter = swap_of(engine), engine.places, engine.model.fc.weight
            engine.model.move, engine.model.how = "fc.weight", how
            outcome = swap.commit(str(drafter_folder(3.0, shift=5)), {}, Vote({"loaded": refusal}))
            assert outcome.ok is not bool(refusal)
            assert engine.values == values
            assert engine.places == before
            assert engine.model.fc.weight is parameter


def check_another_ranks_refusal_is_obeyed() -> None:
    for phase, text in (("ready", "nothing loaded"), ("loaded", "rolled back")):
        engine = Engine()
        swap = swap_of(engine)
        vote = Vote({phase: "rank 1: no room"})
        outcome = swap.commit(str(drafter_folder(3.0)), {}, vote)
        assert not outcome.ok
        assert text in outcome.message
        assert vote.heard == [""] * (1 if phase == "ready" else 2)
        assert engine.values == HOME
        assert swap.commit(str(drafter_folder(4.0)), {}, Vote()).ok


def check_a_vote_that_breaks_off_is_rolled_back() -> None:
    class Broken(Vote):
        def reach(self, phase: str, why: str, of: str = "", within_s: float = 0) -> Verdict:
            if phase == "loaded":
                raise OSError("the folder is gone")
            return super().reach(phase, why, of)

    engine = Engine()
    swap = swap_of(engine)
    outcome = swap.commit(str(drafter_folder(3.0)), {}, Broken())
    assert "rolled back: the ranks could not agree: OSError: the folder is gone" in outcome.message
    assert engine.values == HOME


def check_no_memory_for_the_way_back_is_a_vote_against() -> None:
    engine = Engine()
    swap, vote = swap_of(engine), Vote()

    def full() -> None:
        raise torch.OutOfMemoryError("no room")

    swap._drafter.save = full
    outcome = swap.commit(str(drafter_folder(3.0)), {}, vote)
    assert "rolled back: OutOfMemoryError: no room" in outcome.message
    assert vote.heard == ["", "OutOfMemoryError: no room"]
    assert engine.values == HOME


def check_a_way_back_that_breaks_says_restart() -> None:
    engine = Engine()
    swap = swap_of(engine)

    def broken(saved: Any) -> None:
        raise RuntimeError("the device is gone")

    swap._drafter.restore = broken
    outcome = swap.commit(str(drafter_folder(3.0)), {}, Vote({"loaded": "rank 1: no"}))
    assert "could not be rolled back, restart the engine" in outcome.message
    assert "rank 1: no; RuntimeError: the device is gone" in outcome.message


def check_the_loaded_one_can_be_read_again() -> None:
    engine = Engine()
    swap = swap_of(engine)
    first = swap.checksum
    outcome = swap.commit(str(engine.home), {}, Vote())
    assert outcome.ok
    assert outcome.checksum == first
    assert swap.resident == [str(engine.home)]


def check_infinite_weights_never_stay() -> None:
    engine = Engine()
    swap = swap_of(engine)
    path = drafter_folder(3.0)
    tensors = read(path / "model.safetensors")
    values = torch.full((HIDDEN, HIDDEN), 1e39, dtype=torch.float64)  # finite in the file, not in the engine's float32
    tensors["fc.weight"] = Tensor("F64", [HIDDEN, HIDDEN], values.numpy().tobytes())
    write(path, tensors, CONFIG)
    outcome = swap.commit(str(path), {}, Vote())
    assert "rolled back: DrafterError: fc.weight holds NaN or infinity" in outcome.message, outcome.message
    assert engine.values == HOME


def check_staging_reads_in_a_thread_and_says_what_it_thinks() -> None:
    engine = Engine()
    swap, answers = swap_of(engine), []
    swap.stage(str(drafter_folder(3.0)), answers.append)
    swap._reader.join()
    assert answers[0].ok
    swap.stage("/nowhere", answers.append)
    swap._reader.join()
    assert "no such folder" in answers[1].message
    other = drafter_folder(7.0)
    swap.stage(str(other), answers.append)
    swap._reader.join()
    outcome = swap.commit(str(other), {"resident": 0}, Vote())
    assert outcome.ok
    assert "read" not in outcome.seconds  # it was read before
    assert swap.resident == [str(other)]


def check_files_that_change_after_staging_are_read_anew() -> None:
    engine = Engine()
    swap, answers, path = swap_of(engine), [], drafter_folder(3.0)
    swap.stage(str(path), answers.append)
    swap._reader.join()
    tensors = read(path / "model.safetensors")
    tensors["norm.weight"] = Tensor("F32", [HIDDEN], torch.full((HIDDEN,), 9.0).numpy().tobytes())
    write(path, tensors, {**CONFIG, "note": "longer"})
    assert swap.commit(str(path), {}, Vote()).ok
    assert engine.values[:2] == [3.0, 9.0]


def check_what_cannot_be_swapped_says_why() -> None:
    quantised, part, lost = Engine(), Engine(), Engine()
    quantised.inner.draft_runner.model_config.quantization = "fp8"
    part.inner.draft_runner.model_config.model_path = part.tp_worker.model_runner.model_config.model_path
    lost.inner.draft_runner.model_config.model_path = "nobody/nothing"
    for engine, text in ((quantised, "quantised (fp8)"), (part, "part of the target"), (lost, "not on this machine")):
        swap = Swap(engine, "", lambda: None)
        assert text in swap.why, swap.why
        outcome = swap.commit(str(drafter_folder(3.0)), {}, Vote())
        assert text in outcome.message
        raises(CheckpointRefused, text, swap.stage, "x", print)


def check_an_engine_without_speculation_has_a_feed() -> None:
    engine = Engine()
    engine.draft_worker = None
    probe = Probe(engine, Path(tempfile.mkdtemp()))
    probe.attach({})
    message = probe._message(1)
    probe.publisher.stop()
    assert message["hooks"]["acceptance"] == "off: the engine runs without speculation"
    assert message["hooks"]["commands"] == "on"
    assert (
        message["capabilities"]["depth_why"]
        == message["capabilities"]["swap_why"]
        == "the engine runs without a drafter"
    )
    assert json.loads(json.dumps(message))["depth"] is None


def main() -> None:
    results = {}
    for name, check in sorted(globals().items()):
        if name.startswith("check_") and callable(check) and check is not check_map:
            try:
                check()
                results[name] = ""
            except Exception:
                results[name] = traceback.format_exc()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
