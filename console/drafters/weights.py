"""The weights of a checkpoint: which files count, their headers merged, what is wrong with them."""

from __future__ import annotations

import re

import msgspec

from console.drafters.header import Header, Tensor, UnreadableError, gigabytes, read_header, refuse_lookalike
from console.drafters.layout import canonical
from console.drafters.source import Checkpoint, File, reader

INDEX = "model.safetensors.index.json"
INDEX_LIMIT_BYTES = 4 << 20
MAX_SHARDS = 512
SKIPPED_STATE = re.compile(r"(^|/)(training_state|training_args|optimizer|scheduler|rng_state|trainer_state)")
SKIPPED = re.compile(SKIPPED_STATE.pattern + r".*|.*\.(pth|ckpt)$")
"""Training leftovers: never needed for serving, often larger than the drafter."""


class Weights(msgspec.Struct, frozen=True):
    """Tensors by canonical name, in which file each one is, and remarks."""

    tensors: dict[str, Tensor] = {}
    places: dict[str, tuple[str, int]] = {}
    """Canonical name -> (file, byte offset of its data)."""
    names_on_disk: tuple[str, ...] = ()
    """As the files have them."""
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
            return _without_safetensors(checkpoint, names, tuple(notes))
        return _merge(checkpoint, [names[name] for name in shards], shard_of, tuple(notes + remarks))
    except UnreadableError as error:
        return Weights(unreadable=str(error), unreadable_kind=error.kind, notes=tuple(notes))


def _choose(checkpoint: Checkpoint, names: dict[str, File]) -> tuple[list[str], dict[str, str], list[str]]:
    """The safetensors files to read, the index's word on who holds what, and remarks."""
    present = [name for name in names if name.endswith(".safetensors") and not SKIPPED.fullmatch(name)]
    if INDEX not in names:
        return present, {}, []
    shard_of = _index_of(checkpoint, INDEX)
    wanted = sorted(set(shard_of.values()))
    missing = [name for name in wanted if name not in names]
    if missing:
        raise UnreadableError("missing-shard", f"{', '.join(missing[:5])} named in the index but missing")
    orphans = [name for name in present if name not in wanted]
    return wanted, shard_of, [f"{name} is not named in the index and is ignored" for name in orphans]


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


def _index_of(checkpoint: Checkpoint, name: str) -> dict[str, str]:
    """Tensor name -> file, of an index."""
    text = checkpoint.read(name, 0, INDEX_LIMIT_BYTES + 1)
    if len(text) > INDEX_LIMIT_BYTES:
        raise UnreadableError("bad-index", f"{name} is larger than 4 MB")
    try:
        return msgspec.json.decode(text, type=_Index).weight_map
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise UnreadableError("bad-index", f"{name} is malformed: {' '.join(str(error).split())[:100]}") from error


OTHER_FORMATS = (".bin", ".pt", ".pth", ".ckpt", ".gguf")
TORCH_INDEX = "pytorch_model.bin.index.json"


def _without_safetensors(checkpoint: Checkpoint, names: dict[str, File], notes: tuple[str, ...]) -> Weights:
    """Only another format is there, or nothing: looked at as far as telling a file from a pointer to one."""
    others = [name for name in names if name.endswith(OTHER_FORMATS) and not SKIPPED_STATE.match(name)]
    if TORCH_INDEX in names:
        wanted = sorted(set(_index_of(checkpoint, TORCH_INDEX).values()))
        if missing := [name for name in wanted if name not in names]:
            raise UnreadableError("missing-shard", f"{', '.join(missing[:5])} named in {TORCH_INDEX} but missing")
    if not others:
        text = "no weights here: neither *.safetensors nor *.bin"
        return Weights(unreadable=text, unreadable_kind="missing", notes=notes)
    for name in others[:MAX_SHARDS]:
        if names[name].size_bytes is None:
            raise UnreadableError("missing", f"{name} cannot be read (a dangling link?)")
        if checkpoint.path is not None:
            try:
                refuse_lookalike(checkpoint.read(name, 0, 512), names[name].size_bytes or 0, pickled=True)
            except UnreadableError as error:
                raise UnreadableError(error.kind, f"{name}: {error}") from error
    return Weights(torch_only=others[0], notes=notes)


def _merge(checkpoint: Checkpoint, files: list[File], shard_of: dict[str, str], notes: tuple[str, ...]) -> Weights:
    if len(files) > MAX_SHARDS:
        raise UnreadableError("bad-index", f"{len(files)} shards; no drafter has that many")
    headers = {file.name: _header_of(checkpoint, file) for file in files}
    for raw, shard in shard_of.items():
        if raw not in headers[shard].tensors:
            raise UnreadableError("bad-index", f"the index puts {raw[:80]!r} into {shard}, which does not hold it")
    tensors: dict[str, Tensor] = {}
    places: dict[str, tuple[str, int]] = {}
    on_disk: list[str] = []
    twice: dict[str, str] = {}
    for name, header in headers.items():
        for raw, tensor in header.tensors.items():
            if shard_of and shard_of.get(raw) != name:
                continue
            if (plain := canonical(raw)) in places:
                twice.setdefault(plain, f"{places[plain][0]} and {name}")
            on_disk.append(raw)
            tensors[plain] = tensor
            places[plain] = (name, header.data_start + tensor.data_offsets[0])
    if twice:
        first, where = next(iter(twice.items()))
        more = f" and {len(twice) - 1} more" if len(twice) > 1 else ""
        notes = (*notes, f"{first}{more} stands twice ({where}): which one is loaded depends on the order of reading")
    return Weights(tensors=tensors, places=places, names_on_disk=tuple(on_disk), files=tuple(files), notes=notes)


def _header_of(checkpoint: Checkpoint, file: File) -> Header:
    if file.size_bytes is None:
        raise UnreadableError("missing", f"{file.name} cannot be read (a dangling link?)")
    try:
        return read_header(reader(checkpoint, file.name), file.size_bytes)
    except UnreadableError as error:
        raise UnreadableError(error.kind, f"{file.name}: {error}") from error
