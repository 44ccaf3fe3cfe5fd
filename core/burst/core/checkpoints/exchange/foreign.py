"""Models as others have written them: what is to be imported, before it is read.

`open_foreign` knows folders of Hugging Face with safetensors files, and single safetensors files,
and needs no torch. What torch has written is opened by `burst.harness.importing`.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burst.core.checkpoints.format.tensorfile import STORED_AS, Entry, read_header
from burst.core.errors import NotFound, UsageError

TEXT_BYTES = 64 * 2**20
"""Of all files beside the weights that are kept."""
_INDEX = "model.safetensors.index.json"
_TORCH = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".tar")
_TEXTS = (".json", ".txt", ".model", ".jinja", ".vocab", ".bpe")
_OURS = ("manifest.json", "state.json")
_DTYPES: Mapping[str, str] = {  # the last one counts, and U8 is the carrier of several
    stored: name for name, (stored, width) in reversed(list(STORED_AS.items())) if width == 1
}
_HEADER_BYTES = 8
_MOST_HEADER = 100_000_000
_MOST_EXTENT = 2**63 - 1
_LONGEST_NAME = 200


@dataclass(frozen=True)
class ForeignTensor:
    name: str
    dtype: str
    """As torch names it."""
    shape: tuple[int, ...]
    read_into: Callable[[memoryview, int], None]
    """Fill memory with the tensor's bytes, in C order, from the byte that is given on."""
    tie: Any = None
    """Equal for names of one and the same tensor; None for one that has a single name."""


@dataclass(frozen=True)
class Foreign:
    """A model to import."""

    title: str
    """Where it comes from, for people: a name, not a path."""
    tensors: Sequence[ForeignTensor]
    texts: Mapping[str, bytes] = field(default_factory=dict)
    """Files beside the weights, by name: a configuration, a tokenizer's."""


def written_by_torch(path: Path) -> bool:
    """Whether what lies at `path` needs torch to be read."""
    with readable(path):
        if path.is_dir():
            return not list(path.glob("*.safetensors")) and any(
                (path / n).exists() for n in _TORCH
            )
    return path.suffix in _TORCH_SUFFIXES


def torch_files(path: Path) -> list[Path]:
    """The files that hold the weights of what torch has written at `path`.

    Raises:
        UsageError: an index is not one, or names a file that is not there, or one is no file.
    """
    if not path.is_dir():
        return [_regular(path)]
    index = path / _TORCH[1]
    with readable(path):
        return _indexed(index) if index.exists() else [_regular(path / _TORCH[0])]


def open_foreign(path: Path, key: str = "") -> Foreign:
    """The model in a folder of Hugging Face, or in a safetensors file.

    Args:
        key: as of `burst.harness.importing.open_torch`; such files have none.

    Raises:
        NotFound: there is nothing at `path`.
        UsageError: it is no such folder or file, or what is there does not fit together, or a
            key is given.
    """
    check_there(path)
    with readable(path):
        found = _open(path)
    if key:
        raise UsageError(
            f"{path} holds no state dict at {key!r}",
            why="safetensors files hold one model, and nothing beside its tensors",
            mend="import it without --key",
        )
    return found


def _open(path: Path) -> Foreign:
    files = _weights(path)
    held = {file.name: _tensors(file) for file in files}
    tensors = [tensor for of_file in held.values() for tensor in of_file]
    seen: set[str] = set()
    for tensor in tensors:
        if tensor.name in seen:
            raise UsageError(f"two files of {path} hold a tensor named {tensor.name}")
        seen.add(tensor.name)
    if path.is_dir() and (path / _INDEX).exists():
        _check_index(path / _INDEX, {n: {t.name for t in ts} for n, ts in held.items()})
    return Foreign(path.absolute().name, tensors, texts_beside(path))


def check_there(path: Path) -> None:
    """
    Raises:
        NotFound: there is nothing at `path`.
        UsageError: it cannot be looked at.
    """
    with readable(path):
        if not path.exists():
            raise NotFound(f"there is no {path}", mend="name a folder, or a file of weights")


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Raise what the disk says of a person's files in words.

    Raises:
        UsageError: something of `path` cannot be read.
    """
    try:
        yield
    except OSError as error:
        of = str(error.filename or "")
        raise UsageError(
            f"{path} cannot be read",
            why=": ".join(filter(None, (error.strerror or str(error), of[:_LONGEST_NAME]))),
            mend="see that its files are there and may be read",
        ) from error


def _regular(path: Path) -> Path:
    with readable(path):
        if stat.S_ISREG(path.stat().st_mode):
            return path
    raise UsageError(f"{path} is no file", mend="name a folder of Hugging Face, or a file")


def texts_beside(path: Path) -> dict[str, bytes]:
    """The small files of a folder that belong to its model: configuration and tokenizer.

    Raises:
        UsageError: they have more than 64 MiB, or one cannot be read.
    """
    with readable(path):
        return _texts(path) if path.is_dir() else {}


def _texts(path: Path) -> dict[str, bytes]:
    named = [
        each
        for each in sorted(path.iterdir())
        if each.suffix in _TEXTS
        and not each.name.endswith(".index.json")
        and each.name not in _OURS
    ]
    found = [_regular(each) for each in named if not each.is_dir()]
    size = sum(each.stat().st_size for each in found)
    if size > TEXT_BYTES:
        raise UsageError(
            f"the files beside the weights in {path} have {size} bytes",
            why=f"up to {TEXT_BYTES} are kept in a checkpoint",
            mend="import a folder that holds only the model's own files",
        )
    return {each.name: each.read_bytes() for each in found}


def _weights(path: Path) -> list[Path]:
    if not path.is_dir():
        if path.suffix == ".safetensors":
            return [_regular(path)]
        raise UsageError(
            f"{path} is no file of weights",
            why=f"files end in .safetensors, {', '.join(_TORCH_SUFFIXES)}",
            mend="name a folder of Hugging Face, or such a file",
        )
    if (path / _INDEX).exists():
        return _indexed(path / _INDEX)
    there = sorted(path.glob("*.safetensors"))
    chosen = [each for each in there if each.name == "model.safetensors"] or there
    if len(chosen) == 1:
        return chosen
    raise UsageError(
        f"{path} does not say which of its files is the model" if there else
        f"{path} holds no model",
        why="there is no model.safetensors and no index; it has "
        f"{', '.join(each.name for each in there) or 'no .safetensors file'}",
        mend="name the file itself",
    )  # fmt: skip


def _check_index(index: Path, held: Mapping[str, set[str]]) -> None:
    """See that every tensor lies where the index says."""
    for name, file in _weight_map(index).items():
        if name not in held.get(file, ()):
            raise UsageError(
                f"{file} has no tensor {name}, though {index} says so",
                mend="fetch the whole folder anew",
            )


def _weight_map(index: Path) -> dict[str, str]:
    try:
        found = json.loads(_regular(index).read_bytes())["weight_map"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"{index} is no index of weights", why=_in_words(error)) from error
    if not isinstance(found, dict) or not all(isinstance(f, str) for f in found.values()):
        raise UsageError(
            f"{index} is no index of weights", why="its weight_map names no file for each tensor"
        )
    return found


def _in_words(error: Exception) -> str:
    return {"KeyError": "it has no weight_map", "TypeError": "it has no weight_map"}.get(
        type(error).__name__, str(error)
    )


def _indexed(index: Path) -> list[Path]:
    files = {name: index.parent / name for name in sorted(set(_weight_map(index).values()))}
    missing = [name for name, at in files.items() if at.parent != index.parent or not at.is_file()]
    if missing:
        raise UsageError(
            f"{index} names files that are not beside it",
            why=", ".join(repr(name[:_LONGEST_NAME]) for name in missing[:8]),
            mend="fetch the whole folder",
        )
    return list(files.values())


def _tensors(path: Path) -> list[ForeignTensor]:
    size = _regular(path).stat().st_size
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER_BYTES)
            length = int.from_bytes(head, "little")
            if length > min(size, _MOST_HEADER):
                raise ValueError("its header is longer than the file")
            header = read_header(head + file.read(length))
        end = max((entry.stop for entry in header.values()), default=_HEADER_BYTES + length)
        if end > size:
            raise ValueError("it ends before its tensors do: it was not copied whole")
        if end < size:
            raise ValueError(f"{size - end} bytes come after its tensors")
        for entry in header.values():
            _check_entry(entry)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise UsageError(f"{path} is no whole safetensors file", why=str(error)) from error
    unknown = [entry for entry in header.values() if entry.dtype not in _DTYPES]
    if unknown:
        raise UsageError(
            f"{path} holds tensors of a dtype that checkpoints do not have",
            why=f"{unknown[0].name} is {unknown[0].dtype}",
        )
    ordered = sorted(header.values(), key=lambda entry: entry.start)
    return [
        ForeignTensor(entry.name, _DTYPES[entry.dtype], entry.shape, _reader(path, entry))
        for entry in ordered
    ]


def _check_entry(entry: Entry) -> None:
    """See that it is a tensor that other readers of such files take, too."""
    try:
        entry.name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{entry.name!r} is no name in UTF-8") from None
    if any(extent > _MOST_EXTENT for extent in entry.shape):
        raise ValueError(f"{entry.name!r} has a shape that no tensor can have")


def _reader(path: Path, entry: Entry) -> Callable[[memoryview, int], None]:
    def read_into(buffer: memoryview, start: int) -> None:
        with readable(path), path.open("rb", buffering=0) as file:
            os.lseek(file.fileno(), entry.start + start, os.SEEK_SET)
            while buffer:
                count = file.readinto(buffer)
                if not count:
                    raise UsageError(f"{path} became shorter while it was read")
                buffer = buffer[count:]

    return read_into
