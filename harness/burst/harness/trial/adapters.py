"""What others need to load a model's adapters: of each the tensors that are its own, under the
names that peft reads, and its `adapter_config.json`.

Which tensors those are is peft's to say: it is given the model's state_dict and asked for the
adapter's, and each tensor that comes back is found again by its identity. An adapter that is not
made of tensors of the model, but computed of them (prompt tuning and its like), has no such names;
a model with one is kept by the names of its own state_dict alone.
"""

from __future__ import annotations

import copy
import json
import tempfile
from pathlib import Path
from typing import Any

from huggingface_hub import try_to_load_from_cache
from peft import PeftConfig, get_peft_model_state_dict
from peft.utils.other import EMBEDDING_LAYER_NAMES, match_target_against_key
from torch import nn

from burst.harness.trial.named import own_prefix, plain, unadapted

_ADAPTER_PREFIX = "base_model.model."
_ALL_LINEAR = "all-linear"


def adapted(model: Any) -> tuple[dict[str, Any], Any]:
    """The adapters of a model, by name, and the model that they adapt.

    Returns:
        of each adapter `files`, and `names`: by the names in its file, those in the plain
        state_dict of `model`. None at all if one of them cannot be told so.
    """
    base = model.get_base_model() if own_prefix(model) else model
    adapters: dict[str, Any] = {}
    for name, config in model.peft_config.items():
        names = _names(model, name, config)
        if names is None:
            return {}, base
        files = {"adapter_config.json": _config_file(base, config)}
        adapters[name] = {"files": files, "names": names}
    return adapters, base


def base_names(model: nn.Module) -> dict[str, str]:
    """By the names in the model that is adapted, those in the plain state_dict of `model`."""
    return {name: own for own, (name, itself) in unadapted(model).items() if itself}


def _names(model: Any, adapter: str, config: PeftConfig) -> dict[str, str] | None:
    if config.is_prompt_learning:
        return None
    state = model.state_dict()
    own = {id(value): plain(name) for name, value in state.items()}
    found = get_peft_model_state_dict(
        model,
        state_dict=state,
        adapter_name=adapter,
        save_embedding_layers=_embeddings_too(model, config),
    )
    if not all(id(value) in own for value in found.values()):
        return None
    prefix = "" if own_prefix(model) else _ADAPTER_PREFIX
    return {f"{prefix}{plain(name)}": own[id(value)] for name, value in found.items()}


def _embeddings_too(model: Any, config: Any) -> bool:
    """Whether the embedding belongs to the adapter, as peft finds it: where it is adapted, or its
    size was changed. That is seen from files on this machine alone; peft would ask the hub."""
    if getattr(config, "trainable_token_indices", None) is not None:
        return False
    if str(getattr(config, "peft_type", "")).endswith("TRAINABLE_TOKENS"):
        return False
    if _embeddings_adapted(model, getattr(config, "target_modules", None)):
        return True
    before = _vocabulary_before(getattr(config, "base_model_name_or_path", None))
    return before is not None and before != getattr(model.config, "vocab_size", before)


def _embeddings_adapted(model: Any, targets: Any) -> bool:
    if isinstance(targets, str) and targets != _ALL_LINEAR:
        base = model.get_base_model() if own_prefix(model) else model
        names = (name for name, _ in base.named_modules())
        embeddings = [name for name in names if name.split(".")[-1] in EMBEDDING_LAYER_NAMES]
        return any(match_target_against_key(targets, name) for name in embeddings)
    given = () if isinstance(targets, str) else targets or ()
    return any(name in given for name in EMBEDDING_LAYER_NAMES)


def _vocabulary_before(base: str | None) -> int | None:
    """How many words the model had that this one was made from, where its files are here."""
    if not base:
        return None
    path: Any = Path(base) / "config.json"
    if not path.is_file():
        path = None if path.is_absolute() else _cached(base)
    if path is None:
        return None
    try:
        size = json.loads(Path(path).read_bytes()).get("vocab_size")
    except (OSError, ValueError, AttributeError):
        return None
    return size if isinstance(size, int) else None


def _cached(base: str) -> str | None:
    try:
        found = try_to_load_from_cache(base, "config.json")
    except ValueError:  # it is no name of a repository
        return None
    return found if isinstance(found, str) else None


def _config_file(base: Any, config: PeftConfig) -> bytes:
    """What peft's `save_pretrained` writes; sets in their order, so that it is always the same."""
    config = copy.copy(config)
    named = getattr(base, "name_or_path", None) or None
    config.base_model_name_or_path = config.base_model_name_or_path or named
    config.inference_mode = True
    for name, value in vars(config).items():
        if isinstance(value, set):
            setattr(config, name, sorted(value))
    mapping = None
    if config.task_type is None:
        kind = type(base)
        mapping = {
            "base_model_class": kind.__name__.removeprefix("FSDP"),
            "parent_library": kind.__module__,
        }
    with tempfile.TemporaryDirectory(prefix="burst-") as folder:
        config.save_pretrained(folder, auto_mapping_dict=mapping)
        return (Path(folder) / "adapter_config.json").read_bytes()
