"""What a checkpoint keeps of a model beside its weights, so that others can load them: the files
that `transformers` reads next to `model.safetensors`.

Nothing here imports transformers or peft: a model of them is known by its class.
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
from burst.harness.trial.named import has_adapters, is_a, plain, plain_names, saved_names

MOST_BYTES = 64 * 2**20
"""Of a tokenizer's files in all."""


def export_of(model: nn.Module) -> dict[str, Any] | None:
    """What to keep of a model; None unless it is a model of transformers, or of peft.

    Returns:
        `files`, by name, and `left_out`: the names of its state_dict that `save_pretrained` does
        not write, because the model ties them to others when it is loaded. Where that writes other
        names than the state_dict has, also `names`: by a tensor's name in the file, the one in the
        state_dict. Of a model with adapters, `adapters` by name and `base`: of each `files` and
        `names`.
    """
    model = getattr(model, "_orig_mod", model)
    if has_adapters(model):
        from burst.harness.trial.adapters import adapted, base_names

        adapters, base = adapted(model)
        if adapters:
            names, files = base_names(model), {}
            if _is_pretrained(base):
                state = _renamed(model, names)
                left_out = _left_out(base, state)
                kept = {name: state[name] for name in names if name not in left_out}
                names = {name: names[own] for name, own in saved_names(base, kept).items()}
                files = _files_of(base)
            return {"adapters": adapters, "base": {"files": files, "names": names}}
    if not _is_pretrained(model):
        return None
    state = model.state_dict(keep_vars=True)
    left_out = _left_out(model, state)
    export: dict[str, Any] = {"files": _files_of(model), "left_out": left_out}
    names = saved_names(model, {n: value for n, value in state.items() if n not in left_out})
    if any(name != own for name, own in names.items()):
        export["names"] = {name: plain(own) for name, own in names.items()}
    return export


def _files_of(model: Any) -> dict[str, bytes]:
    table = json.loads(model.config.to_json_string(use_diff=False))
    table["architectures"] = [type(model).__name__.removeprefix("FSDP")]
    table["dtype"] = str(model.dtype).removeprefix("torch.")
    files = {"config.json": _encoded(table)}
    generation: Any = getattr(model, "generation_config", None)
    if generation is not None and _can_generate(model):
        files["generation_config.json"] = _encoded(json.loads(generation.to_json_string()))
    return files


def _renamed(model: nn.Module, names: Mapping[str, str]) -> dict[str, Any]:
    """The live tensors of a model under other names."""
    plain = plain_names(model)
    state = model.state_dict(keep_vars=True)
    return {name: state[plain[own]] for name, own in names.items()}


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
    return is_a(model, "PreTrainedModel", "transformers")


def _can_generate(model: Any) -> bool:
    return bool(model.can_generate())


def _left_out(model: Any, state: Mapping[str, Any]) -> list[str]:
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
