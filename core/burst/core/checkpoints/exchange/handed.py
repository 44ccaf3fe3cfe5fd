"""Which models a checkpoint hands out, under the names that others know their tensors by.

A model of peft is several: each adapter as `adapter_model.safetensors` with its
`adapter_config.json`, the first one's in the folder itself and others' in folders of their names,
as peft writes them; and the model that they adapt, as if nothing had adapted it, in `base/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from burst.core.checkpoints.format.state_file import StateFile, bytes_at, state_dicts
from burst.core.model import Json

ADAPTER_CONFIG = "adapter_config.json"
_ADAPTER = "adapter_model"
_BASE = "base"
_COMPILED = "_orig_mod."
_FIRST_ADAPTER = "default"
_FOLDER = re.compile(r"(?!\.)[^/\\\0]+")


@dataclass(frozen=True)
class Handed:
    """One model, or one adapter of a model."""

    folder: str
    """Empty, or with a slash at its end."""
    stem: str
    """Its file's name without the suffix."""
    tensors: Mapping[str, int]
    """By the names in the file, the indices of tensors."""
    texts: Mapping[str, bytes | int] = field(default_factory=dict)
    """Small files by path: their bytes, or the index of the tensor that holds them."""
    base: bool = False
    """Whether it is what adapters adapt."""
    adapts: str = ""
    """Of an adapter, the folder of what it adapts. It is read from one file alone."""


def handed_out(shared: StateFile) -> list[Handed]:
    """All models of a checkpoint; of one that holds none, its tensors by their places."""
    found = state_dicts(shared.tree)
    if not found:
        every = {ref.name: index for index, ref in enumerate(shared.tensors)}
        return [Handed("", "tensors", every)] if every else []
    models: list[Handed] = []
    for index, tensors in enumerate(found):
        export = _export(shared.tree, index)
        # A second config.json, or adapter, needs a folder of its own.
        folder = f"models.{index}/" if index and export else ""
        if export.get("adapters"):
            models += _adapted(_plain(tensors), export, folder)
            continue
        left_out = set(export.get("left_out", ()))
        named = {key: at for key, at in _plain(tensors).items() if key not in left_out}
        if export.get("names"):
            named = _named(named, export)
        stem = "model" if folder or not index else f"models.{index}"
        texts = dict(_files(export.get("files"), folder))
        models.append(Handed(folder, stem, named, texts))
    return models


def tokenizer_texts(tree: Json) -> dict[str, bytes | int]:
    """The files of the tokenizer, by path."""
    return dict(_files(_exports(tree).get("tokenizer"), ""))


def _adapted(
    tensors: Mapping[str, int], export: Mapping[str, Any], folder: str
) -> Iterator[Handed]:
    adapters: Mapping[str, Any] = export["adapters"]
    under = f"{folder}{_BASE if _BASE not in adapters else f'{_BASE}_model'}/"
    for name, adapter in adapters.items():
        if name != _FIRST_ADAPTER and not _FOLDER.fullmatch(name):
            continue
        place = folder if name == _FIRST_ADAPTER else f"{folder}{name}/"
        texts = dict(_files(adapter["files"], place))
        yield Handed(place, _ADAPTER, _named(tensors, adapter), texts, adapts=under)
    base = export["base"]
    texts = dict(_files(base["files"], under))
    yield Handed(under, "model", _named(tensors, base), texts, base=True)


def _named(tensors: Mapping[str, int], part: Mapping[str, Any]) -> dict[str, int]:
    """Some of a model's tensors, by the names that they have in the file."""
    return {name: tensors[own] for name, own in part["names"].items() if own in tensors}


def _plain(tensors: Mapping[str, int]) -> Mapping[str, int]:
    """The names without what `torch.compile` has put into them."""
    plain = {name.replace(_COMPILED, ""): index for name, index in tensors.items()}
    return plain if len(plain) == len(tensors) else tensors


def _exports(tree: Json) -> Mapping[str, Any]:
    """What the harness kept for others: absent in older checkpoints, and in those of scripts that
    registered nothing."""
    found = tree.get("exports") if isinstance(tree, dict) else None
    return found if isinstance(found, dict) else {}


def _export(tree: Json, index: int) -> Mapping[str, Any]:
    models = _exports(tree).get("models") or []
    return (models[index] if index < len(models) else None) or {}


def _files(node: Any, folder: str) -> Iterator[tuple[str, bytes | int]]:
    for name, held in node.items() if isinstance(node, dict) else ():
        data = bytes_at(held)
        if data is not None and "/" not in name and not name.startswith("."):
            yield f"{folder}{name}", data
