"""Imports what torch has written, in a process of its own, for a command that has no torch.

    python -m burst.harness.importing PATH --store URL --blobs URL [--name NAME] [--key KEY]

Files are read with `torch.load(weights_only=True)`: nothing in them is run. stdout has a JSON
object a line: `{"done": bytes, "total": bytes}` on the way, and last `{"checkpoint": id}` or
`{"error": {"what", "why", "mend", "code"}}`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from burst.core.blobs import open_blobs
from burst.core.checkpoints.exchange.foreign import (
    Foreign,
    ForeignTensor,
    check_there,
    readable,
    texts_beside,
    torch_files,
)
from burst.core.checkpoints.exchange.importing import import_model
from burst.core.clock import SystemClock
from burst.core.errors import BurstError, UsageError
from burst.core.store import open_store
from burst.harness.checkpoints.codec import values
from burst.harness.checkpoints.restoring.decoding import flat_bytes

_PREFIXES = ("module.", "_orig_mod.")
"""What data-parallel wrappers and compilation put before every name."""
_PICKLE = b"\x80"
"""How every pickle begins that torch has written."""
_GLOBAL = re.compile(r"GLOBAL (\S+)")
_WEIGHTS_ALONE = "where it was made, save the weights alone: torch.save(model.state_dict(), …)"
_EVERY_S = 0.2
_DEEPEST = 50


def open_torch(path: Path, key: str = "") -> Foreign:
    """The state dict in a file that `torch.save` has written, or in the `pytorch_model.bin` of a
    folder. Where torch can map the file into memory, it stays on the disk until it is copied.

    Args:
        key: where the state dict lies, if the file holds more than one, such as `ema.model`.

    Raises:
        NotFound: there is nothing at `path`.
        UsageError: it holds something else than a state dict, or more than one.
    """
    check_there(path)
    state: dict[str, torch.Tensor] = {}
    for file in torch_files(path):
        with readable(path):
            state |= _state_dict(_load(file), file, key)
    while any(all(name.startswith(prefix) for name in state) for prefix in _PREFIXES) and state:
        state = {name.partition(".")[2]: tensor for name, tensor in state.items()}
    return Foreign(
        path.absolute().name,
        [_tensor(name, value, path) for name, value in state.items()],
        texts_beside(path),
    )


def _load(file: Path) -> Any:
    zipped = zipfile.is_zipfile(file)
    with file.open("rb") as opened:
        first = opened.read(2)
        if not zipped and first == b"PK":
            raise _unreadable(file, "it is a zip archive that ends too early: not copied whole")
        if not zipped and first[:1] != _PICKLE:
            raise _unreadable(file, "it begins neither as a zip archive nor as a pickle")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of pickle protocols, of which torch reads some
            return torch.load(file, map_location="cpu", weights_only=True, mmap=zipped)
    except Exception as error:  # whatever a file of anybody's may bring torch to
        if "TorchScript" in str(error):
            raise UsageError(
                f"{file} holds a program of TorchScript, and loading that would run it",
                mend=_WEIGHTS_ALONE,
            ) from None
        if type(error).__name__ != "UnpicklingError":
            raise _unreadable(file, f"{type(error).__name__}: {error}".splitlines()[0]) from None
        named = _GLOBAL.search(str(error))
        raise UsageError(
            f"{file} holds Python objects, and loading those would run code",
            why=f"one is a {named[1]}" if named else "",
            mend=_WEIGHTS_ALONE,
        ) from None


def _unreadable(file: Path, why: str) -> UsageError:
    return UsageError(
        f"torch cannot load {file}",
        why=why,
        mend="files of weights end in .safetensors, or were written by torch.save",
    )


def _state_dict(loaded: Any, file: Path, key: str) -> dict[str, torch.Tensor]:
    found = dict(_candidates(loaded, ""))
    if key:
        found = {place: state for place, state in found.items() if place == key}
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        raise UsageError(
            f"{file} holds no state dict" + (f" at {key!r}" if key else ""),
            why=f"it holds {_described(loaded)}",
            mend="save one: torch.save(model.state_dict(), …)",
        )
    raise UsageError(
        f"{file} holds more than one state dict",
        why=", ".join(place or "the whole" for place in found),
        mend="say which one with --key",
    )


def _candidates(
    node: Any, place: str, within: tuple[int, ...] = ()
) -> list[tuple[str, dict[str, torch.Tensor]]]:
    """The mappings of names to tensors in what was loaded, those at the top first. Optimizers'
    states, whose names are numbers, are none."""
    if not isinstance(node, Mapping) or id(node) in within or len(within) > _DEEPEST:
        return []
    tensors = {name: value for name, value in node.items() if isinstance(value, torch.Tensor)}
    if tensors and all(isinstance(name, str) for name in node) and len(tensors) * 2 > len(node):
        return [(place, tensors)]
    found = []
    for name, value in node.items():
        if isinstance(name, str):
            inner = f"{place}.{name}" if place else name
            found += _candidates(value, inner, (*within, id(node)))
    return found


def _tensor(name: str, tensor: torch.Tensor, path: Path) -> ForeignTensor:
    try:
        values.check_tensor(tensor)
    except values.Unrepresentable as error:
        raise UsageError(
            f"{name} of {path} cannot be kept", why=str(error), mend=error.mend
        ) from None
    tensor = tensor.detach().resolve_conj().resolve_neg()
    return ForeignTensor(
        name,
        values.name_of(tensor.dtype),
        tuple(tensor.shape),
        _reader(tensor),
        values.memory_of(tensor),
    )


def _reader(tensor: torch.Tensor) -> Callable[[memoryview, int], None]:
    if tensor.numel() == 1:
        tensor = tensor.reshape(())  # torch takes any stride of one element for contiguous

    def read_into(buffer: memoryview, start: int) -> None:
        buffer[:] = flat_bytes(tensor)[start : start + len(buffer)].data

    return read_into


def _described(loaded: Any) -> str:
    if isinstance(loaded, Mapping):
        names = [str(name) for name in list(loaded)[:8]]
        return f"a mapping of {', '.join(names)}" if names else "an empty mapping"
    return f"a {type(loaded).__name__}"


class _Teller:
    """Says how far it is, not too often."""

    def __init__(self) -> None:
        self._told = 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done == total or now - self._told > _EVERY_S:
            self._told = now
            print(json.dumps({"done": done, "total": total}), flush=True)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m burst.harness.importing")
    parser.add_argument("path", type=Path)
    parser.add_argument("--store", required=True)
    parser.add_argument("--blobs", required=True)
    parser.add_argument("--name", default="")
    parser.add_argument("--key", default="")
    asked = parser.parse_args(words)
    try:
        foreign = open_torch(asked.path, asked.key)
        store, blobs = open_store(asked.store), open_blobs(asked.blobs)
        record = import_model(
            blobs, store, foreign, SystemClock(), name=asked.name, progress=_Teller()
        )
        store.close()
    except (RuntimeError, MemoryError) as error:  # torch's words for too little memory, and others
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        return _tell(BurstError(f"{asked.path} could not be imported", why=why))
    except BurstError as error:
        return _tell(error)
    print(json.dumps({"checkpoint": record.id}), flush=True)
    return 0


def _tell(error: BurstError) -> int:
    told = {"what": error.what, "why": error.why, "mend": error.mend}
    print(json.dumps({"error": {**told, "code": int(error.exit_code)}}), flush=True)
    return int(error.exit_code)


if __name__ == "__main__":
    sys.exit(main())
