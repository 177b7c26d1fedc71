"""The weights of a checkpoint: which files count, their headers merged, what is wrong with them."""

from __future__ import annotations

import re

import msgspec

from console.drafters.header import Header, Tensor, UnreadableError, gigabytes, read_header
from console.drafters.layout import canonical
from console.drafters.source import Checkpoint, File, reader

INDEX = "model.safetensors.index.json"
INDEX_LIMIT_BYTES = 4 << 20
MAX_SHARDS = 512
SKIPPED = re.compile(r"(^|/)(training_state|optimizer|scheduler|rng_state|trainer_state).*|.*\.(pth|ckpt)$")
"""Training leftovers: never needed for serving, often larger than the drafter."""


class Weights(msgspec.Struct, frozen=True):
    """Tensors by canonical name, in which file each one is, and remarks."""

    tensors: dict[str, Tensor] = {}
    places: dict[str, tuple[str, int]] = {}
    """Canonical name -> (file, byte offset of its data)."""
    files: tuple[File, ...] = ()
    unreadable: str = ""
    """Why there is no usable header; everything else is empty then."""
    unreadable_kind: str = ""
    torch_only: str = ""
    """Only torch's pickled format is there: the name of the file, which is not opened."""
    notes: tuple[str, ...] = ()

    @property
    def data_bytes(self) -> int:
        """Bytes of tensor data."""
        return sum(tensor.data_offsets[1] - tensor.data_offsets[0] for tensor in self.tensors.values())


def read_weights(checkpoint: Checkpoint) -> Weights:
    """Read every header that serving needs. Never raises; the reason stands in ``unreadable``."""
    names = {file.name: file for file in checkpoint.files}
    notes = [
        f"{file.name} ({gigabytes(file.size_bytes or 0)}) skipped: training state, not needed for serving"
        for file in checkpoint.files
        if SKIPPED.fullmatch(file.name)
    ]
    try:
        shards, shard_of, remarks = _choose(checkpoint, names)
        if not shards:
            return _without_safetensors(names, tuple(notes))
        return _merge(checkpoint, [names[name] for name in shards], shard_of, tuple(notes + remarks))
    except UnreadableError as error:
        return Weights(unreadable=str(error), unreadable_kind=error.kind, notes=tuple(notes))


def _choose(checkpoint: Checkpoint, names: dict[str, File]) -> tuple[list[str], dict[str, str], list[str]]:
    """The safetensors files to read, the index's word on who holds what, and remarks."""
    present = [name for name in names if name.endswith(".safetensors") and not SKIPPED.fullmatch(name)]
    if INDEX not in names:
        return present, {}, []
    text = checkpoint.read(INDEX, 0, INDEX_LIMIT_BYTES + 1)
    if len(text) > INDEX_LIMIT_BYTES:
        raise UnreadableError("bad-index", f"{INDEX} is larger than 4 MB")
    try:
        shard_of = msgspec.json.decode(text, type=_Index).weight_map
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise UnreadableError("bad-index", f"{INDEX} is malformed: {' '.join(str(error).split())[:100]}") from error
    wanted = sorted(set(shard_of.values()))
    missing = [name for name in wanted if name not in names]
    if missing:
        raise UnreadableError("missing-shard", f"{', '.join(missing[:5])} named in the index but missing")
    orphans = [name for name in present if name not in wanted]
    return wanted, shard_of, [f"{name} is not named in the index and is ignored" for name in orphans]


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


def _without_safetensors(names: dict[str, File], notes: tuple[str, ...]) -> Weights:
    torch_files = [name for name in names if name.endswith(".bin") and not SKIPPED.fullmatch(name)]
    if torch_files:
        return Weights(torch_only=torch_files[0], notes=notes)
    return Weights(
        unreadable="no weights here: neither *.safetensors nor *.bin", unreadable_kind="missing", notes=notes
    )


def _merge(checkpoint: Checkpoint, files: list[File], shard_of: dict[str, str], notes: tuple[str, ...]) -> Weights:
    if len(files) > MAX_SHARDS:
        raise UnreadableError("bad-index", f"{len(files)} shards; no drafter has that many")
    headers = {file.name: _header_of(checkpoint, file) for file in files}
    for raw, shard in shard_of.items():
        if raw not in headers[shard].tensors:
            raise UnreadableError("bad-index", f"the index puts {raw[:80]!r} into {shard}, which does not hold it")
    tensors: dict[str, Tensor] = {}
    places: dict[str, tuple[str, int]] = {}
    for name, header in headers.items():
        for raw, tensor in header.tensors.items():
            if shard_of and shard_of.get(raw) != name:
                continue
            tensors[canonical(raw)] = tensor
            places[canonical(raw)] = (name, header.data_start + tensor.data_offsets[0])
    return Weights(tensors=tensors, places=places, files=tuple(files), notes=notes)


def _header_of(checkpoint: Checkpoint, file: File) -> Header:
    if file.size_bytes is None:
        raise UnreadableError("missing", f"{file.name} cannot be read (a dangling link?)")
    try:
        return read_header(reader(checkpoint, file.name), file.size_bytes)
    except UnreadableError as error:
        raise UnreadableError(error.kind, f"{file.name}: {error}") from error
