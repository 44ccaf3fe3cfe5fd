"""The JSON file of one half of a state: the tree, and where the bytes of its tensors lie.

The tree is plain JSON but for marks, `{"$": [kind, ...]}`, which the harness makes and understands
(`burst.harness.checkpoints.codec`). Here it is read only as far as moving tensors needs.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from burst.core.checkpoints.format.manifest import Damaged
from burst.core.model import Json

_HOLDERS = ("tensor", "parameter", "array", "long bytes", "long bytearray")


class TensorRef(BaseModel):
    """One tensor of a tree."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    dtype: str
    """As torch names it."""
    shape: tuple[int, ...]
    stride: tuple[int, ...] | None = None
    """To restore with, where it was dense and not contiguous; its bytes are in C order always."""
    pieces: tuple[tuple[int, str, int], ...]
    """Of each piece, in order: the file (an index into `files`), the name in it, and the first
    element of the tensor that it holds."""
    boxes: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] | None = None
    """Of a tensor that was saved in shards: of each piece, the offsets and the sizes of the box of
    the tensor that it belongs to. The piece's first element then counts within that box."""


class StateFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    tree: Json
    files: tuple[str, ...]
    """SHA-256 of the safetensors files; the manifest knows their keys."""
    tensors: tuple[TensorRef, ...]
    """The tree's tensor marks hold an index into these."""

    def encode(self) -> bytes:
        # Pydantic would copy the whole tree before, which for many small tensors takes seconds.
        tensors = [vars(ref) for ref in self.tensors]
        return json.dumps({"tree": self.tree, "files": self.files, "tensors": tensors}).encode()

    @classmethod
    def decode(cls, data: bytes) -> StateFile:
        """
        Raises:
            Damaged: if these are not bytes of such a file.
        """
        try:
            return cls.model_validate(json.loads(data))
        except (ValueError, ValidationError) as error:
            raise Damaged("a state file is not one", why=str(error)) from error


def state_dicts(tree: Json) -> list[dict[str, int]]:
    """The models of a shared tree, each as parameter name → tensor index: those of a trial class
    (`tree.models`), or, of a script, whatever in its state is the state dict of a module.

    Names are those of the model's `state_dict`; what is no tensor (extra state) is left out.
    """
    models = tree.get("models") if isinstance(tree, dict) else None
    found = models if isinstance(models, list) else _modules(tree)
    return [dict(_tensors(model, "")) for model in found]


def bytes_at(node: Json) -> bytes | int | None:
    """The bytes that a node of a tree stands for: themselves, or, of long ones, the index of the
    tensor that holds them; None if it is anything else."""
    kind, parts = _mark(node)
    if kind == "bytes":
        return base64.b64decode(parts[0])
    return int(parts[0]) if kind == "long bytes" else None


def tensor_indices(node: Json) -> Iterator[int]:
    """The tensors that a tree points to, as often as it does."""
    kind, parts = _mark(node)
    if kind in _HOLDERS:
        yield parts[0]
    below = node if isinstance(node, list) else parts if kind is not None else ()
    if isinstance(node, dict) and kind is None:
        below = list(node.values())
    for item in below:
        if isinstance(item, dict | list):
            yield from tensor_indices(item)


def _modules(node: Json) -> Iterator[Json]:
    """Below a node, the state dicts of modules: the only ordered dicts with versions in them."""
    kind, parts = _mark(node)
    if kind == "ordered" and parts[1] is not None:
        yield node
        return
    below: Any = node if isinstance(node, list) else parts
    if isinstance(node, dict) and kind is None:
        below = node.values()
    for item in below:
        if isinstance(item, dict | list):
            yield from _modules(item)


def _tensors(node: Json, name: str) -> Iterator[tuple[str, int]]:
    kind, parts = _mark(node)
    if kind in ("tensor", "parameter"):
        yield name, parts[0]
        return
    items: Any = ()
    if kind in ("ordered", "dict"):
        items = parts[0]
    elif isinstance(node, dict) and kind is None:
        items = node.items()
    for key, item in items:
        yield from _tensors(item, f"{name}.{key}" if name else str(key))


def _mark(node: Json) -> tuple[str | None, list[Json]]:
    if isinstance(node, dict) and isinstance(node.get("$"), list):
        return node["$"][0], node["$"][1:]
    return None, []
