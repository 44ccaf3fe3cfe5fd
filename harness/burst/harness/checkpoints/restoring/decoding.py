"""A half of a state made with torch, and each tensor compared with the bytes it was made of."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from burst.core.checkpoints.format.boxes import runs, whole
from burst.core.checkpoints.format.manifest import FileEntry
from burst.core.checkpoints.format.state_file import StateFile, TensorRef
from burst.core.checkpoints.format.tensorfile import read_header
from burst.core.checkpoints.reading import Reading
from burst.core.model import Json
from burst.harness.checkpoints.codec import tree, values
from burst.harness.checkpoints.codec.skeletons import decode
from burst.harness.checkpoints.codec.state_types import is_registered
from burst.harness.checkpoints.port import Tree
from burst.harness.checkpoints.shards import Read, empty, scatter, wanted


@dataclass(frozen=True)
class Decoded:
    tree: Tree
    tensors: int
    faults: tuple[str, ...]
    """What did not come back as it was saved."""
    notes: tuple[str, ...] = ()
    """What was not tried, and why."""


def decode_half(reading: Reading, half: FileEntry) -> Decoded:
    """Restore a half on the CPU the way the engine does, and look whether it is what was saved.

    Every tensor's elements are compared, by another way of counting them, with the bytes of the
    files; the tree is turned into its skeleton again and compared with the one that was saved.

    Raises:
        Damaged: if a file is missing or is not what was written.
        Unreachable: if a place did not answer.
        NotMade: if a registered type does not take back what was saved of it.
        ValueError, LookupError, TypeError: if it cannot be decoded at all.
    """
    state = StateFile.decode(bytes(reading.fetch(half)))
    tensors, faults = _fill(reading, state)
    skeleton, unknown = _known(state.tree)
    found = decode(skeleton, tensors)
    again = tree.encode(found, "state")
    if _canonical(again.skeleton) != _canonical(skeleton):
        faults.append("its tree does not come back as it was saved")
    notes = [f"objects of {name} were not made: nothing here registers it" for name in unknown]
    return Decoded(found, len(tensors), tuple(faults), tuple(notes))


def _fill(reading: Reading, state: StateFile) -> tuple[list[torch.Tensor], list[str]]:
    tensors = [empty(ref) for ref in state.tensors]
    jobs: dict[str, list[tuple[int, Read]]] = {}
    for index, ref in enumerate(state.tensors):
        for read in wanted(ref, None):
            jobs.setdefault(state.files[read.file], []).append((index, read))
    files = {entry.sha256: entry for entry in reading.manifest.tensors}
    wrong: dict[int, None] = {}
    for entry, data in reading.in_order([files[digest] for digest in jobs]):
        header = read_header(data)
        for index, read in jobs[entry.sha256]:
            piece = bytearray(data[header[read.name].start : header[read.name].stop])
            scatter(piece, read, tensors[index])
            if not _holds(tensors[index], state.tensors[index], read.name, piece):
                wrong[index] = None
    return tensors, [f"{state.tensors[at].name} is not what was saved" for at in wrong]


def _holds(tensor: torch.Tensor, ref: TensorRef, name: str, piece: bytearray) -> bool:
    """Whether a tensor has the bytes of a piece where the piece belongs."""
    number = next(at for at, (_, named, _) in enumerate(ref.pieces) if named == name)
    box = whole(ref.shape) if ref.boxes is None else ref.boxes[number]
    flat = flat_bytes(tensor)
    held, width = np.frombuffer(piece, np.uint8), tensor.element_size()
    start = ref.pieces[number][2]
    return all(
        np.array_equal(
            held[first * width : (first + count) * width],
            flat[place * width : (place + count) * width],
        )
        for first, place, count in runs(ref.shape, box, start, start + len(piece) // width)
    )


def flat_bytes(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """The bytes of a tensor's elements in C order."""
    carrier = values.carrier_of(tensor.dtype)
    plain = tensor.detach() if carrier is tensor.dtype else tensor.detach().view(carrier)
    return plain.contiguous().reshape(-1).view(torch.uint8).numpy()


def _known(node: Json) -> tuple[Json, list[str]]:
    """A skeleton with objects of unknown types as what they were saved as, and these types."""
    unknown: dict[str, None] = {}

    def visit(part: Any) -> Any:
        if isinstance(part, list):
            return [visit(item) for item in part]
        if not isinstance(part, dict):
            return part
        mark = part.get("$")
        if isinstance(mark, list) and mark[0] == "object" and not is_registered(mark[1]):
            unknown[mark[1]] = None
            return visit(mark[2])
        return {key: visit(item) for key, item in part.items()}

    return visit(node), list(unknown)


def _canonical(node: Json) -> Json:
    """A skeleton in which sets have one order."""
    if isinstance(node, list):
        return [_canonical(item) for item in node]
    if not isinstance(node, dict):
        return node
    mark = node.get("$")
    if isinstance(mark, list) and mark[0] in ("set", "frozenset"):
        parts: Sequence[Json] = sorted((_canonical(item) for item in mark[1:]), key=json.dumps)
        return {"$": [mark[0], *parts]}
    items: Mapping[str, Json] = node
    return {key: _canonical(item) for key, item in items.items()}
