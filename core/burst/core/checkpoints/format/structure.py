"""Whether the parts of a checkpoint fit together, beyond being what was written. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from burst.core.checkpoints.format.boxes import Box, inside, tile, whole
from burst.core.checkpoints.format.state_file import StateFile, TensorRef, tensor_indices
from burst.core.checkpoints.format.tensorfile import ELEMENT_BYTES, STORED_AS, Entry

Headers = Mapping[str, Mapping[str, Entry]]
"""By the SHA-256 of a file: what its header says of the tensors in it."""


def faults(state: StateFile, headers: Headers) -> Iterator[str]:
    """What keeps a half of a state from being restored, in words.

    Each tensor's pieces have to be in the files, with its dtype, and to cover it exactly; the tree
    has to point to tensors that there are.
    """
    for digest in state.files:
        if digest not in headers:
            yield f"it names the file {digest}, which the manifest does not"
    for ref in state.tensors:
        fault = _fault_of(ref, state, headers)
        if fault:
            yield f"{ref.name}: {fault}"
    for index in sorted(set(tensor_indices(state.tree))):
        if not 0 <= index < len(state.tensors):
            yield f"its tree points to tensor {index} of {len(state.tensors)}"


def _fault_of(ref: TensorRef, state: StateFile, headers: Headers) -> str:
    if ref.dtype not in STORED_AS:
        return f"there is no dtype {ref.dtype}"
    if ref.stride is not None and len(ref.stride) != len(ref.shape):
        return f"its strides {list(ref.stride)} are not those of the shape {list(ref.shape)}"
    boxes = [whole(ref.shape)] * len(ref.pieces) if ref.boxes is None else ref.boxes
    if len(boxes) != len(ref.pieces):
        return f"it has {len(ref.pieces)} pieces in {len(boxes)} boxes"
    spans: dict[Box, list[tuple[int, int]]] = {}
    for box, (file, name, start) in zip(boxes, ref.pieces, strict=True):
        entry = None
        if 0 <= file < len(state.files):
            entry = headers.get(state.files[file], {}).get(name)
        if entry is None:
            return f"its piece {name} is in none of the files"
        count = _elements(ref, entry)
        if count is None:
            return f"its piece {name} is {entry.dtype} {list(entry.shape)}, not {ref.dtype}"
        if not inside(box, ref.shape):
            return f"its piece {name} lies outside of it"
        spans.setdefault((tuple(box[0]), tuple(box[1])), []).append((start, start + count))
    if not all(_covers(found, math.prod(box[1])) for box, found in spans.items()):
        return "its pieces do not cover it exactly"
    return "" if tile(list(spans), ref.shape) else "its pieces do not cover it exactly"


def _elements(ref: TensorRef, entry: Entry) -> int | None:
    """How many elements of the tensor a piece holds, if it is of its dtype."""
    stored, width = STORED_AS[ref.dtype]
    if entry.dtype != stored:
        return None
    count, rest = divmod(entry.size, ELEMENT_BYTES[stored] * width)
    return None if rest else count


def _covers(spans: list[tuple[int, int]], size: int) -> bool:
    at = 0
    for start, stop in sorted(spans):
        if start != at:
            return False
        at = stop
    return at == size
