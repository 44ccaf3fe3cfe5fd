"""A checkpoint as the files that others read, planned: which ones, and what goes where in them.

The names, the shards and the index are those of the Hugging Face libraries; `config.json` and the
tokenizer's files are what the harness has kept of a model of transformers. Pure: nothing is read
or written here.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from burst.core.checkpoints.exchange.handed import (
    ADAPTER_CONFIG,
    Handed,
    handed_out,
    tokenizer_texts,
)
from burst.core.checkpoints.exchange.trainer_state import trainer_texts
from burst.core.checkpoints.format.boxes import Box
from burst.core.checkpoints.format.state_file import StateFile, TensorRef
from burst.core.checkpoints.format.tensorfile import entry_of, lay_out_as_library

SHARD_BYTES = 5_000_000_000
"""A model of more bytes is written in several files."""


@dataclass(frozen=True)
class Piece:
    """A piece of a tensor in a source file, and where it goes in the one that is made."""

    name: str
    """In the source file."""
    start: int
    """The first of its elements, counted in `box`."""
    shape: tuple[int, ...]
    """The whole tensor's."""
    box: Box | None
    """The part of the tensor that it is of; None is all of it."""
    target: int
    """Where the whole tensor begins in the file that is made."""
    width: int
    """Bytes of an element."""


@dataclass(frozen=True)
class Output:
    """A safetensors file to make."""

    name: str
    """Its path in the folder."""
    header: bytes
    size: int
    pieces: Mapping[str, Sequence[Piece]]
    """By the SHA-256 of the source file."""

    @property
    def plan(self) -> str:
        """Equal for two outputs that are made of the same bytes in the same way."""
        digest = hashlib.sha256(self.header)
        for source, pieces in self.pieces.items():
            digest.update(f"{source} {pieces}".encode())
        return digest.hexdigest()


@dataclass(frozen=True)
class Layout:
    """All files to make of a checkpoint, but for those that every checkpoint has."""

    outputs: tuple[Output, ...]
    texts: Mapping[str, bytes | int]
    """Small files by path: their bytes, or the index of the tensor that holds them."""
    adapted: Mapping[str, str]
    """By the path of an adapter's configuration, the folder of the model that it adapts."""


def plan(shared: StateFile, shard_bytes: int = SHARD_BYTES, *, base: bool = True) -> Layout:
    """The files to make of what all ranks of a checkpoint hold alike.

    Args:
        shard_bytes: the most bytes of tensors in one file; a larger tensor has a file of its own.
        base: whether the models that adapters adapt are among them.
    """
    outputs: list[Output] = []
    texts: dict[str, bytes | int] = tokenizer_texts(shared.tree) | trainer_texts(shared.tree)
    adapted: dict[str, str] = {}
    for model in handed_out(shared):
        if model.base and not base:
            continue
        made = list(_sharded(model, shared, shard_bytes))
        outputs += made
        if len(made) > 1:
            texts[f"{model.folder}{model.stem}.safetensors.index.json"] = _index(made, model)
        texts |= model.texts
        if model.adapts and base:
            adapted[f"{model.folder}{ADAPTER_CONFIG}"] = model.adapts
    return Layout(tuple(outputs), texts, adapted)


def _sharded(model: Handed, shared: StateFile, most: int) -> Iterator[Output]:
    most = sys.maxsize if model.adapts else most
    shards: list[dict[str, TensorRef]] = [{}]
    filled = 0
    for name, index in model.tensors.items():
        ref = shared.tensors[index]
        size = entry_of(name, ref.dtype, ref.shape).size
        if shards[-1] and filled + size > most:
            shards.append({})
            filled = 0
        shards[-1][name] = ref
        filled += size
    for number, refs in enumerate(shards, start=1):
        part = f"-{number:05d}-of-{len(shards):05d}" if len(shards) > 1 else ""
        yield _output(f"{model.folder}{model.stem}{part}.safetensors", shared, refs)


def _output(name: str, state: StateFile, refs: Mapping[str, TensorRef]) -> Output:
    header, placed = lay_out_as_library(
        [entry_of(key, ref.dtype, ref.shape) for key, ref in refs.items()], {"format": "pt"}
    )
    pieces: dict[str, list[Piece]] = {}
    for entry in placed:
        ref = refs[entry.name]
        width = entry.size // max(1, math.prod(ref.shape))
        for number, (file, piece, start) in enumerate(ref.pieces):
            box = ref.boxes[number] if ref.boxes is not None else None
            place = Piece(piece, start, ref.shape, box, entry.start, width)
            pieces.setdefault(state.files[file], []).append(place)
    size = max((entry.stop for entry in placed), default=len(header))
    return Output(name, header, size, pieces)


def _index(outputs: Sequence[Output], model: Handed) -> bytes:
    """Which tensor lies in which file, as transformers reads it."""
    names = list(model.tensors)
    total = 0
    where: dict[str, str] = {}
    for output in outputs:
        table = json.loads(output.header[8:])
        table.pop("__metadata__")
        for name, item in table.items():
            where[name] = output.name.removeprefix(model.folder)
            total += item["data_offsets"][1] - item["data_offsets"][0]
    weights = {name: where[name] for name in sorted(names)}
    return (
        json.dumps({"metadata": {"total_size": total}, "weight_map": weights}, indent=2)
    ).encode()
