"""What a checkpoint keeps of a model beside its weights, so that others can load them: the files
that `transformers` reads next to `model.safetensors`.

Nothing here imports transformers: a model of it is known by its class.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from burst.harness.errors import TrialError

MOST_BYTES = 64 * 2**20
"""Of a tokenizer's files in all."""


def export_of(model: nn.Module) -> dict[str, Any] | None:
    """What to keep of a model; None unless it is a model of transformers.

    Returns:
        `files`, by name, and `left_out`: the names of its state_dict that `save_pretrained` does
        not write, because the model ties them to others when it is loaded.
    """
    model = getattr(model, "_orig_mod", model)
    if not _is_pretrained(model):
        return None
    config: Any = model.config
    table = json.loads(config.to_json_string(use_diff=False))
    table["architectures"] = [type(model).__name__.removeprefix("FSDP")]
    table["dtype"] = str(model.dtype).removeprefix("torch.")
    files = {"config.json": _encoded(table)}
    generation: Any = getattr(model, "generation_config", None)
    if generation is not None and _can_generate(model):
        files["generation_config.json"] = _encoded(json.loads(generation.to_json_string()))
    return {"files": files, "left_out": _left_out(model)}


def tokenizer_files(tokenizer: Any) -> dict[str, bytes]:
    """The files that a tokenizer (or a processor) writes with `save_pretrained`, by name.

    Raises:
        TrialError: it cannot, it writes folders, or more than 64 MiB.
    """
    if not hasattr(tokenizer, "save_pretrained"):
        raise TrialError(
            f"{type(tokenizer).__name__} is no tokenizer of transformers",
            why="it has no `save_pretrained`",
            mend="context.register_tokenizer(AutoTokenizer.from_pretrained(name))",
        )
    with tempfile.TemporaryDirectory(prefix="burst-") as folder:
        tokenizer.save_pretrained(folder)
        written = sorted(Path(folder).iterdir())
        size = sum(path.stat().st_size for path in written)
        if size > MOST_BYTES or not all(path.is_file() for path in written):
            raise TrialError(
                f"the files of {type(tokenizer).__name__} do not fit into checkpoints",
                why=f"they have {size} bytes, and up to {MOST_BYTES} are kept, as files",
                mend="keep them beside the data instead",
            )
        return {path.name: path.read_bytes() for path in written}


def _is_pretrained(model: nn.Module) -> bool:
    kinds = type(model).__mro__
    return any(
        kind.__name__ == "PreTrainedModel" and kind.__module__.startswith("transformers.")
        for kind in kinds
    )


def _can_generate(model: Any) -> bool:
    return bool(model.can_generate())


def _left_out(model: Any) -> list[str]:
    state: Mapping[str, Any] = model.state_dict(keep_vars=True)
    names: dict[int, list[str]] = {}
    for name, value in state.items():
        names.setdefault(id(value), []).append(name)
    out = [name for name in getattr(model, "_keys_to_ignore_on_save", None) or () if name in state]
    patterns = _tied_keys(model)
    for group in names.values():
        tied = [n for n in sorted(group) if any(re.search(pattern, n) for pattern in patterns)]
        out += tied[: len(group) - 1]  # one of them stays, whatever the model says
    return out


def _tied_keys(model: Any) -> Iterable[str]:
    """Patterns of the names that loading ties to others: a mapping of them since transformers 5,
    a list before."""
    keys = getattr(model, "all_tied_weights_keys", None)
    return list(keys or getattr(model, "_tied_weights_keys", None) or ())


def _encoded(table: Any) -> bytes:
    return (json.dumps(table, indent=2, sort_keys=True) + "\n").encode()
