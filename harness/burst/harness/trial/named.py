"""By what names a model's tensors go: with and without what `torch.compile` and peft put there.

A layer that peft adapts is replaced by one that holds it as `base_layer`; a module that it trains
as a whole, by one that holds it as `original_module`. Without those parts, and without what stands
beside them, the names are those of the model before it was adapted. Nothing here imports peft: its
classes are known by their names.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

COMPILED = "_orig_mod"
_PEFT_PREFIX = "base_model.model."
_COPIES = "modules_to_save"


def is_a(value: Any, name: str, package: str) -> bool:
    """Whether an object is of the class of this name, or of one derived from it."""
    return any(
        kind.__name__ == name and kind.__module__.partition(".")[0] == package
        for kind in type(value).__mro__
    )


def has_adapters(model: nn.Module) -> bool:
    """Whether it is a model of peft, or one of transformers that was given adapters."""
    model = getattr(model, COMPILED, model)
    return is_a(model, "PeftModel", "peft") or bool(
        getattr(model, "_hf_peft_config_loaded", False)
    )


def plain_names(model: nn.Module) -> dict[str, str]:
    """The names in a model's state_dict, by what they are without `torch.compile`."""
    return {plain(name): name for name in model.state_dict(keep_vars=True)}


def plain(name: str) -> str:
    return name.replace(f"{COMPILED}.", "")


def own_prefix(model: nn.Module) -> str:
    """What stands in a model of peft before the names of the model that it adapts."""
    model = getattr(model, COMPILED, model)
    return _PEFT_PREFIX if is_a(model, "PeftModel", "peft") else ""


def saved_names(model: Any, state: Mapping[str, Any]) -> dict[str, str]:
    """By the names under which `save_pretrained` writes a model, those of its state_dict: files
    keep the names that they had on the hub, which transformers changes when it loads them. Where
    it does more than rename, the model's own names stay, which it reads as well."""
    same = {name: name for name in state}
    loading = sys.modules.get("transformers.core_model_loading")
    revert = getattr(loading, "revert_weight_conversion", None)
    if revert is None:
        return same
    empty = {
        name: torch.empty(value.shape, dtype=value.dtype, device="meta")
        for name, value in state.items()
        if isinstance(value, torch.Tensor)
    }
    own = {id(value): name for name, value in empty.items()}
    found = revert(model, dict(empty))
    if len(found) != len(empty) or not all(id(value) in own for value in found.values()):
        return same
    return {name: own[id(value)] for name, value in found.items()}


def unadapted(model: nn.Module) -> Mapping[str, tuple[str, bool]]:
    """By the plain name in a model's state_dict, what the tensor is called in the model that was
    adapted, and whether it is that tensor itself, rather than the copy of it that is trained.
    Tensors of adapters alone are left out."""
    prefix = own_prefix(model)
    found: dict[str, tuple[str, bool]] = {}
    for name, own in plain_names(model).items():
        if not name.startswith(prefix):
            continue
        kept, itself = _unadapted(model, own.split("."))
        if kept is not None:
            found[name] = kept.removeprefix(prefix), itself
    return found


def _unadapted(model: nn.Module, path: list[str]) -> tuple[str | None, bool]:
    module: Any = model
    kept: list[str] = []
    itself, at = True, 0
    while at < len(path):
        part = path[at]
        if is_a(module, "BaseTunerLayer", "peft") and part != COMPILED:
            if part != "base_layer":
                return None, False
        elif is_a(module, "AuxiliaryTrainingWrapper", "peft") and part != COMPILED:
            if part == _COPIES and at + 1 < len(path):
                module = getattr(module, part)
                at, itself = at + 1, False
                part = path[at]
            elif part != "original_module":
                return None, False
        elif part != COMPILED:
            kept.append(part)
        module, at = getattr(module, part, None), at + 1
    return ".".join(kept), itself
