"""A checkpoint as the files that others read, planned: which ones, and what goes where in them.

The names, the shards and the index are those of the Hugging Face libraries; `config.json` and the
tokenizer's files are what the harness has kept of a model of transformers. Pure: nothing is read
or written here.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from burst.core.checkpoints.format.boxes import Box
from burst.core.checkpoints.format.state_file import StateFile, TensorRef, bytes_at, state_dicts
from burst.core.checkpoints.format.tensorfile import entry_of, lay_out
from burst.core.model import Json

SHARD_BYTES = 5_000_000_000
"""A model of more bytes is written in several files."""
_COMPILED = "_orig_mod."


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


@dataclass(frozen=True)
class _Model:
    folder: str
    """Empty, or with a slash at its end."""
    stem: str
    tensors: Mapping[str, int]


def plan(shared: StateFile, shard_bytes: int = SHARD_BYTES) -> Layout:
    """The files to make of what all ranks of a checkpoint hold alike.

    Args:
        shard_bytes: the most bytes of tensors in one file; a larger tensor has a file of its own.
    """
    exports = _exports(shared.tree)
    outputs: list[Output] = []
    texts: dict[str, bytes | int] = dict(_files(exports.get("tokenizer"), ""))
    for index, model in enumerate(_models(shared, exports)):
        made = list(_sharded(model, shared, shard_bytes))
        outputs += made
        if len(made) > 1:
            texts[f"{model.folder}{model.stem}.safetensors.index.json"] = _index(made, model)
        texts |= dict(_files(_export(exports, index).get("files"), model.folder))
    return Layout(tuple(outputs), texts)


def _models(shared: StateFile, exports: Mapping[str, Any]) -> list[_Model]:
    found = state_dicts(shared.tree)
    if not found:
        every = {ref.name: index for index, ref in enumerate(shared.tensors)}
        return [_Model("", "tensors", every)] if every else []
    models = []
    for index, tensors in enumerate(found):
        export = _export(exports, index)
        own = index > 0 and bool(export)  # a second config.json needs a folder of its own
        left_out = set(export.get("left_out", ()))
        named = {key: at for key, at in _plain(tensors).items() if key not in left_out}
        stem = "model" if own or not index else f"models.{index}"
        models.append(_Model(f"models.{index}/" if own else "", stem, named))
    return models


def _plain(tensors: Mapping[str, int]) -> Mapping[str, int]:
    """The names without what `torch.compile` has put into them."""
    plain = {name.replace(_COMPILED, ""): index for name, index in tensors.items()}
    return plain if len(plain) == len(tensors) else tensors


def _sharded(model: _Model, shared: StateFile, most: int) -> Iterator[Output]:
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
    header, placed = lay_out(
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


def _index(outputs: Sequence[Output], model: _Model) -> bytes:
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


def _exports(tree: Json) -> Mapping[str, Any]:
    """What the harness kept for others: absent in older checkpoints, and in those of scripts that
    registered nothing."""
    found = tree.get("exports") if isinstance(tree, dict) else None
    return found if isinstance(found, dict) else {}


def _export(exports: Mapping[str, Any], index: int) -> Mapping[str, Any]:
    models = exports.get("models") or []
    return (models[index] if index < len(models) else None) or {}


def _files(node: Any, folder: str) -> Iterator[tuple[str, bytes | int]]:
    for name, held in node.items() if isinstance(node, dict) else ():
        data = bytes_at(held)
        if data is not None and "/" not in name and not name.startswith("."):
            yield f"{folder}{name}", data
