"""A checkpoint as files that others read: safetensors and JSON. Needs no torch.

    <folder>/model.safetensors     the first model, under the names of its state_dict
    <folder>/models.1.safetensors  the second, and so on
    <folder>/tensors.safetensors   where there are no models: every tensor, by its place
    <folder>/state.json            everything that is no tensor, and how far it was trained
    <folder>/manifest.json         the checkpoint's own, last

Tensors are moved, not understood: their bytes are copied to where a new header says they are.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from burst.core.blobs.port import Blobs
from burst.core.checkpoints.manifest import FileEntry, Manifest
from burst.core.checkpoints.state_file import StateFile, state_dicts
from burst.core.checkpoints.tensorfile import entry_of, lay_out, read_header
from burst.core.checkpoints.verify import Progress, fetch, home, read
from burst.core.errors import BurstError, UsageError
from burst.core.model import Checkpoint


@dataclass(frozen=True)
class _Copy:
    """A tensor's piece in a source file, and where it goes in the one that is made."""

    name: str
    target: int


@dataclass(frozen=True)
class _Output:
    name: str
    header: bytes
    size: int
    copies: Mapping[str, Sequence[_Copy]]
    """By the SHA-256 of the source file."""

    @property
    def partial(self) -> str:
        return f"{self.name}.partial"

    @property
    def journal(self) -> str:
        return f"{self.name}.partial.json"

    @property
    def plan(self) -> str:
        """Equal for two outputs that are made of the same bytes in the same way."""
        digest = hashlib.sha256(self.header)
        for source in self.copies:
            digest.update(source.encode())
        return digest.hexdigest()


def download(
    blobs: Blobs,
    checkpoint: Checkpoint | Manifest,
    folder: Path,
    progress: Progress | None = None,
) -> tuple[Path, ...]:
    """Write a checkpoint's models and state as ordinary files; returns their paths.

    Every byte is verified. Interrupted at any moment and called again, it goes on where it was;
    what was finished is not fetched again.

    Raises:
        Damaged: if a file of the checkpoint is missing or is not what was written.
        UsageError: if the folder holds another checkpoint.
        Unreachable: if the blobs did not answer.
        BurstError: if the folder cannot be written.
    """
    blobs = home(blobs, checkpoint)
    manifest = checkpoint if isinstance(checkpoint, Manifest) else read(blobs, checkpoint)
    shared = StateFile.decode(bytes(fetch(blobs, manifest.shared)))
    own = [StateFile.decode(bytes(fetch(blobs, entry))) for entry in manifest.own]
    with _disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        finished = _check_folder(folder, manifest)
        outputs = _outputs(shared)
        bar = _Bar(progress, sum(output.size for output in outputs))
        files = {entry.sha256: entry for entry in manifest.tensors}
        for output in outputs:
            if not (finished and _size(folder / output.name) == output.size):
                _make(blobs, files, output, folder, bar)
            bar.finish(output.size)
        _replace(folder / "state.json", _state(manifest, shared, own))
        _replace(folder / "manifest.json", manifest.encode())
        for output in outputs:
            (folder / output.journal).unlink(missing_ok=True)
    names = [*(output.name for output in outputs), "state.json", "manifest.json"]
    return tuple(folder / name for name in names)


class _Bar:
    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._before = 0

    def show(self, of_this_file: int) -> None:
        if self._progress:
            self._progress(self._before + of_this_file, self._total)

    def finish(self, size: int) -> None:
        self._before += size
        self.show(0)


def _outputs(shared: StateFile) -> list[_Output]:
    models = state_dicts(shared.tree)
    if not models:
        every = {ref.name: index for index, ref in enumerate(shared.tensors)}
        return [_output("tensors.safetensors", shared, every)] if every else []
    names = ["model.safetensors", *(f"models.{n}.safetensors" for n in range(1, len(models)))]
    return [_output(name, shared, model) for name, model in zip(names, models, strict=True)]


def _output(name: str, state: StateFile, tensors: Mapping[str, int]) -> _Output:
    refs = {key: state.tensors[index] for key, index in tensors.items()}
    header, placed = lay_out(
        [entry_of(key, ref.dtype, ref.shape) for key, ref in refs.items()], {"format": "pt"}
    )
    copies: dict[str, list[_Copy]] = {}
    for entry in placed:
        ref = refs[entry.name]
        elements = max(1, _count(ref.shape))
        for file, piece, start in ref.pieces:
            target = entry.start + start * (entry.size // elements)
            copies.setdefault(state.files[file], []).append(_Copy(piece, target))
    size = max((entry.stop for entry in placed), default=len(header))
    return _Output(name, header, size, copies)


def _make(
    blobs: Blobs, files: Mapping[str, FileEntry], output: _Output, folder: Path, bar: _Bar
) -> None:
    path, partial = folder / output.name, folder / output.partial
    done = _done(folder, output)
    if done == len(output.copies) and _size(path) == output.size:
        return
    with partial.open("r+b" if done else "w+b") as target:
        target.write(output.header)
        target.truncate(output.size)
        written = 0
        for number, (digest, copies) in enumerate(output.copies.items()):
            if number >= done:
                data = fetch(blobs, files[digest])
                header = read_header(data)
                for copy in copies:
                    target.seek(copy.target)
                    target.write(data[header[copy.name].start : header[copy.name].stop])
                target.flush()
                os.fsync(target.fileno())
                note = {"plan": output.plan, "done": number + 1}
                _replace(folder / output.journal, json.dumps(note).encode())
            written += files[digest].size
            bar.show(min(written, output.size))
    partial.replace(path)


def _done(folder: Path, output: _Output) -> int:
    """How many source files an earlier call has written already."""
    try:
        note = json.loads((folder / output.journal).read_bytes())
        written = max(_size(folder / output.partial), _size(folder / output.name))
        return int(note["done"]) if (note["plan"], written) == (output.plan, output.size) else 0
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return 0


def _check_folder(folder: Path, manifest: Manifest) -> bool:
    """Whether `folder` holds this very checkpoint, whole."""
    path = folder / "manifest.json"
    if not path.exists():
        return False
    if path.read_bytes() == manifest.encode():
        return True
    raise UsageError(
        f"{folder} holds another checkpoint",
        mend="name an empty folder, or one that does not exist yet",
    )


def _state(manifest: Manifest, shared: StateFile, own: Sequence[StateFile]) -> bytes:
    facts = json.loads(manifest.model_dump_json())
    kept = ("trial", "experiment", "attempt", "created", "done", "metrics", "envelope")
    table = {
        "checkpoint": manifest.id,
        **{key: facts[key] for key in kept},
        "shared": _readable(shared),
        "own": [_readable(state) for state in own],
    }
    return json.dumps(table, indent=1).encode()


def _readable(state: StateFile) -> dict[str, object]:
    refs = [{"name": r.name, "dtype": r.dtype, "shape": r.shape} for r in state.tensors]
    return {"tree": state.tree, "tensors": refs}


def _count(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else -1


def _replace(path: Path, data: bytes) -> None:
    partial = path.with_name(path.name + ".new")
    partial.write_bytes(data)
    partial.replace(path)


@contextmanager
def _disk(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BurstError(
            f"cannot write the checkpoint to {folder}",
            why=error.strerror or str(error),
            mend="free space there, or name another folder; calling again goes on where it was",
        ) from error
