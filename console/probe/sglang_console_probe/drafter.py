"""The drafter inside the engine: which tensors are its own, and how to exchange them where they lie.

CUDA graphs have captured the addresses: every tensor must be written in place, also those that a loader replaces by
new ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sglang_console_probe.checkpoint import Checkpoint
from sglang_console_probe.checksum import checksum
from sglang_console_probe.fit import check_config, check_map, check_tensors, plain_name

HEADROOM_BYTES = 1 << 30
"""GPU memory that a copy of a drafter must leave free for the engine."""


class DrafterError(Exception):
    """The drafter cannot be exchanged in this engine."""


@dataclass(frozen=True)
class Slot:
    """A tensor of the drafter: who holds it under which name, and the storage that captured graphs read."""

    name: str
    owner: Any
    attribute: str
    held: Any
    tensor: Any
    """``held`` as it was, detached: the same storage, also when ``held`` is made to point elsewhere."""

    @classmethod
    def of(cls, name: str, owner: Any, attribute: str) -> Slot:
        """The slot of an attribute as it is now."""
        held = getattr(owner, attribute)
        return cls(name, owner, attribute, held, held.detach())

    def put_back(self) -> None:
        """Whatever the owner holds now goes into the storage, and the owner holds that again.

        Raises:
            DrafterError: it does not fit.
        """
        now = getattr(self.owner, self.attribute)
        if now is self.held and now.data_ptr() == self.tensor.data_ptr():
            return
        if not is_tensor(now) or now.shape != self.tensor.shape:
            raise DrafterError(f"{self.name} changed its shape")
        self.tensor.copy_(now.detach())
        self.hold()

    def hold(self) -> None:
        """Make the owner hold the storage, whatever it holds now."""
        if self.held.data_ptr() != self.tensor.data_ptr():
            self.held.data = self.tensor
        if getattr(self.owner, self.attribute, None) is not self.held:
            setattr(self.owner, self.attribute, self.held)


class Drafter:
    """The draft model of one rank.

    Args:
        scheduler: SGLang's.

    Raises:
        DrafterError: why its weights cannot be exchanged live.
    """

    def __init__(self, scheduler: Any) -> None:
        self._worker = inner_worker(scheduler)
        self._runner: Any = getattr(self._worker, "draft_runner", None)
        if self._runner is None:
            raise DrafterError("this kind of speculation has no single draft model")
        self.model = self._runner.model
        target = scheduler.tp_worker.model_runner
        self.vocabulary = int(target.model_config.vocab_size)
        self.path = resolve(self._runner.model_config)
        self._refuse(target)
        theirs = {parameter.data_ptr() for parameter in target.model.parameters() if parameter.numel()}
        named = dict(self.model.named_parameters(remove_duplicate=False))
        self.shared = {plain_name(name) for name, parameter in named.items() if parameter.data_ptr() in theirs}
        self._own = [
            Slot.of(name, self.model.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2])
            for name, parameter in self.model.named_parameters()
            if parameter.data_ptr() not in theirs
        ]
        if not self._own:
            raise DrafterError("the draft model has no weights of its own")

    def _refuse(self, target: Any) -> None:
        if self.path is None:
            raise DrafterError(
                "the running drafter's folder is not on this machine, so nothing can be compared with it"
            )
        if self.path == resolve(target.model_config):
            raise DrafterError("the drafter is a part of the target's checkpoint")
        quantization = getattr(self._runner.model_config, "quantization", None)
        if quantization and quantization != "unquant":
            raise DrafterError(
                f"the running drafter is quantised ({quantization}): its weights were repacked at the start"
            )

    # ------------------------------------------------------------------------------------------ what it is

    @property
    def hot_ids(self) -> Any:
        """Target ids of the drafter's vocabulary, as eager code and captured graphs read them.

        ``None`` without a map.
        """
        return getattr(self._worker, "hot_token_id", None)

    def checksum(self) -> str:
        """Over all weights of its own on this rank, and its token map."""
        tensors = {slot.name: slot.tensor for slot in self._own}
        if self.hot_ids is not None:
            tensors["hot_token_id"] = self.hot_ids
        return checksum(tensors)

    @property
    def size(self) -> int:
        """Bytes of its own weights on this rank."""
        return sum(slot.tensor.numel() * slot.tensor.element_size() for slot in self._own)

    def check(self, running: Checkpoint, offered: Checkpoint) -> None:
        """Whether an opened checkpoint may take the place of the running one, by everything but its values.

        Raises:
            CheckpointRefused: it may not.
        """
        check_config(running.config, offered.config)
        check_tensors(running, offered, self.shared)

    def check_map(self, offered: Checkpoint) -> None:
        """Whether the token map of a loaded checkpoint can take the place of the present one.

        Raises:
            CheckpointRefused: it cannot.
        """
        found = [tensor for name, tensor in offered.tensors.items() if plain_name(name) == "d2t"]
        check_map(found[0] if found else None, self.hot_ids, self.vocabulary)

    # ------------------------------------------------------------------------------------------ exchange

    def _slots(self) -> Iterator[Slot]:
        """Parameters, tensors derived from them (``w_kc``, ``w_vc`` of MLA), and the token map."""
        yield from self._own
        for prefix, module in self.model.named_modules():
            for name, value in vars(module).items():
                if is_tensor(value) and name != "hot_token_id":
                    yield Slot.of(f"{prefix}.{name}", module, name)
        if self.hot_ids is not None:
            yield Slot.of("hot_token_id", self._worker, "hot_token_id")

    def save(self) -> list[tuple[Slot, Any]]:
        """Copies of everything a swap writes: beside it on the device when there is room, else in the host's memory."""
        host = not self._room()
        return [
            (slot, slot.tensor.detach().to("cpu") if host and slot.tensor.is_cuda else slot.tensor.detach().clone())
            for slot in self._slots()
        ]

    def _room(self) -> bool:
        import torch

        if not self._own[0].tensor.is_cuda:
            return True
        free, _ = torch.cuda.mem_get_info(self._own[0].tensor.device)
        return free > self.size + HEADROOM_BYTES

    def restore(self, saved: list[tuple[Slot, Any]]) -> None:
        """Write saved copies back, in place."""
        import torch

        with torch.no_grad():
            for slot, copy in saved:
                slot.tensor.copy_(copy)
                slot.hold()

    def load(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint's weights over the present ones through the model's own loader, which shards them.

        Raises:
            Exception: whatever the loader says; the weights may then be half loaded.
        """
        import torch

        before = list(self._slots())
        model_ids = getattr(self.model, "hot_token_id", None)
        with torch.no_grad():
            self.model.load_weights(
                (name, tensor) for name, tensor in checkpoint.tensors.items() if plain_name(name) not in self.shared
            )
            for slot in before:
                slot.put_back()
            self._set_hot_ids(getattr(self.model, "hot_token_id", None), model_ids)
        for slot in self._own:
            if slot.tensor.is_floating_point() and not bool(torch.isfinite(slot.tensor).all()):
                raise DrafterError(f"{slot.name} holds NaN or infinity")

    def _set_hot_ids(self, new: Any, old: Any) -> None:
        if self.hot_ids is None:
            return
        if new is None or new is old:
            raise DrafterError("the checkpoint's token map was not loaded")
        self.hot_ids.copy_(new.to(self.hot_ids.device, self.hot_ids.dtype))


def inner_worker(scheduler: Any) -> Any:
    """The worker that drafts, inside the one that speculates."""
    worker = getattr(scheduler, "draft_worker", None)
    return getattr(worker, "_draft_worker", None) or getattr(worker, "draft_worker", None)


def is_tensor(value: Any) -> bool:
    """Whether it is a torch tensor."""
    import torch

    return isinstance(value, torch.Tensor)


def resolve(model_config: Any) -> Path | None:
    """The folder of a model on this machine, also when it is named as a repository; ``None`` when there is none."""
    name = str(getattr(model_config, "model_path", ""))
    if Path(name).is_dir():
        return Path(name).resolve()
    with suppress(Exception):
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(name, revision=getattr(model_config, "revision", None), local_files_only=True))
    return None
