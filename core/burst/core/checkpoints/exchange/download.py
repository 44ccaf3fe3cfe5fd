"""A checkpoint as files that others read: safetensors and JSON. Needs no torch.

    <folder>/model.safetensors     the first model, under the names of its state_dict; a large one
                                   in model-00001-of-0000N.safetensors with an index
    <folder>/config.json, …        of a model of transformers, with its tokenizer's files
    <folder>/models.1.safetensors  the second, and so on; in models.1/ if it is of transformers
    <folder>/tensors.safetensors   where there are no models: every tensor, by its place
    <folder>/state.json            everything that is no tensor, and how far it was trained
    <folder>/manifest.json         the checkpoint's own, last

Tensors are moved, not understood: their bytes are copied to where a new header says they are.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from burst.core.blobs.port import Blobs
from burst.core.checkpoints.exchange.huggingface import SHARD_BYTES, Output, Piece, plan
from burst.core.checkpoints.format.boxes import runs, whole
from burst.core.checkpoints.format.manifest import FileEntry, Manifest
from burst.core.checkpoints.format.state_file import StateFile
from burst.core.checkpoints.format.tensorfile import read_header
from burst.core.checkpoints.reading import Reading, open_checkpoint
from burst.core.checkpoints.verify import Progress
from burst.core.errors import BurstError, UsageError
from burst.core.model import Checkpoint

_NOTED_BYTES = 128 * 2**20
"""So many are written between two notes of how far it is."""
_OURS = re.compile(
    r"(?:models\.\d+/)?(?:model|models\.\d+|tensors)(?:-\d{5}-of-\d{5})?\.safetensors(?:\.index\.json)?"
)


def download(
    blobs: Blobs,
    checkpoint: Checkpoint | Manifest,
    folder: Path,
    progress: Progress | None = None,
    *,
    shard_bytes: int = SHARD_BYTES,
) -> tuple[Path, ...]:
    """Write a checkpoint's models and state as ordinary files; returns their paths.

    Every byte is verified. Interrupted at any moment and called again, it goes on where it was;
    what was finished is not fetched again.

    Args:
        progress: called with the bytes written so far, and with all there are.
        shard_bytes: a model of more bytes is written in several files.

    Raises:
        Damaged: if a file of the checkpoint is missing or is not what was written.
        UsageError: if the folder holds another checkpoint.
        Unreachable: if the blobs did not answer.
        BurstError: if the folder cannot be written.
    """
    reading = open_checkpoint(blobs, checkpoint)
    manifest = reading.manifest
    shared = StateFile.decode(bytes(reading.fetch(manifest.shared)))
    own = [StateFile.decode(bytes(reading.fetch(entry))) for entry in manifest.own]
    layout = plan(shared, shard_bytes)
    with _disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        finished = _check_folder(folder, manifest)
        bar = _Bar(progress, sum(output.size for output in layout.outputs))
        files = {entry.sha256: entry for entry in manifest.tensors}
        for output in layout.outputs:
            if not (finished and _size(folder / output.name) == output.size):
                _make(reading, files, output, folder, bar)
            bar.finish(output.size)
        for name, text in layout.texts.items():
            data = text if isinstance(text, bytes) else _assembled(reading, files, shared, text)
            _replace(folder / name, data)
        names = [*(output.name for output in layout.outputs), *layout.texts]
        if finished:
            _remove_other_layout(folder, names)
        _replace(folder / "state.json", _state(manifest, shared, own))
        _replace(folder / "manifest.json", manifest.encode())
        for output in layout.outputs:
            _journal(folder, output).unlink(missing_ok=True)
    return tuple(folder / name for name in [*names, "state.json", "manifest.json"])


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


def _make(
    reading: Reading, files: Mapping[str, FileEntry], output: Output, folder: Path, bar: _Bar
) -> None:
    path, partial = folder / output.name, _partial(folder, output)
    done = _done(folder, output)
    if done == len(output.pieces) and _size(path) == output.size:
        return
    partial.parent.mkdir(exist_ok=True)
    sources = list(output.pieces)
    written = sum(files[digest].size for digest in sources[:done])
    noted = written
    with partial.open("r+b" if done else "w+b") as target:
        target.write(output.header)
        target.truncate(output.size)
        target.flush()
        fetched = reading.in_order([files[digest] for digest in sources[done:]])
        for number, (entry, data) in enumerate(fetched, start=done + 1):
            _copy(data, output.pieces[entry.sha256], _writer(target.fileno()))
            written += entry.size
            if written - noted >= _NOTED_BYTES or number == len(sources):
                os.fsync(target.fileno())
                note = {"plan": output.plan, "done": number}
                _replace(_journal(folder, output), json.dumps(note).encode())
                noted = written
            bar.show(min(written, output.size))
    partial.replace(path)


def _copy(
    data: memoryview, pieces: Sequence[Piece], write: Callable[[memoryview, int], None]
) -> None:
    """Put the pieces that a source file holds where they belong."""
    header = read_header(data)
    for piece in pieces:
        held = data[header[piece.name].start : header[piece.name].stop]
        count, width = len(held) // piece.width if piece.width else 0, piece.width
        box = piece.box or whole(piece.shape)
        for first, place, length in runs(piece.shape, box, piece.start, piece.start + count):
            write(held[first * width : (first + length) * width], piece.target + place * width)


def _writer(descriptor: int) -> Callable[[memoryview, int], None]:
    def write(data: memoryview, place: int) -> None:
        while data:
            count = os.pwrite(descriptor, data, place)
            data, place = data[count:], place + count

    return write


def _assembled(
    reading: Reading, files: Mapping[str, FileEntry], shared: StateFile, index: int
) -> bytes:
    """The bytes of a tensor."""
    ref = shared.tensors[index]
    out = bytearray(ref.shape[0] if ref.shape else 0)

    def write(data: memoryview, place: int) -> None:
        out[place : place + len(data)] = data

    for number, (file, name, start) in enumerate(ref.pieces):
        box = ref.boxes[number] if ref.boxes is not None else None
        piece = Piece(name, start, ref.shape, box, target=0, width=1)
        _copy(reading.fetch(files[shared.files[file]]), [piece], write)
    return bytes(out)


def _done(folder: Path, output: Output) -> int:
    """How many source files an earlier call has written already."""
    try:
        note = json.loads(_journal(folder, output).read_bytes())
        written = max(_size(_partial(folder, output)), _size(folder / output.name))
        return int(note["done"]) if (note["plan"], written) == (output.plan, output.size) else 0
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return 0


def _partial(folder: Path, output: Output) -> Path:
    return folder / f"{output.name}.partial"


def _journal(folder: Path, output: Output) -> Path:
    return folder / f"{output.name}.partial.json"


def _remove_other_layout(folder: Path, names: Sequence[str]) -> None:
    """Remove what an earlier call wrote of this checkpoint with another size of shards, which
    readers would find beside the new files."""
    for path in [*folder.glob("*.safetensors*"), *folder.glob("models.*/*.safetensors*")]:
        name = path.relative_to(folder).as_posix()
        if name not in names and _OURS.fullmatch(name):
            path.unlink()


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


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else -1


def _replace(path: Path, data: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
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
