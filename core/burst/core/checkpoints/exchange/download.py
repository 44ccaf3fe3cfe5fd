"""A checkpoint as files that others read: safetensors and JSON. Needs no torch.

    <folder>/model.safetensors     the first model, under the names of its state_dict; a large one
                                   in model-00001-of-0000N.safetensors with an index
    <folder>/config.json, …        of a model of transformers, with its tokenizer's files
    <folder>/adapter_model.safetensors, adapter_config.json
                                   instead, of a model of peft: its adapter, others in folders of
                                   their names, and the model that they adapt in base/
    <folder>/models.1.safetensors  the second, and so on; in models.1/ if it is of these
    <folder>/tensors.safetensors   where there are no models: every tensor, by its place
    <folder>/state.json            everything that is no tensor, and how far it was trained
    <folder>/manifest.json         the checkpoint's own, last
    <folder>/.burst-download/      which of these files are the download's

Tensors are moved, not understood: their bytes are copied to where a new header says they are.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from burst.core.blobs.port import Blobs
from burst.core.checkpoints.exchange.huggingface import SHARD_BYTES, Output, Piece, plan
from burst.core.checkpoints.exchange.target import Target, write
from burst.core.checkpoints.format.boxes import runs, whole
from burst.core.checkpoints.format.manifest import FileEntry, Manifest
from burst.core.checkpoints.format.state_file import StateFile
from burst.core.checkpoints.format.tensorfile import read_header
from burst.core.checkpoints.reading import Reading, open_checkpoint
from burst.core.checkpoints.verify import Progress
from burst.core.errors import BurstError, UsageError
from burst.core.model import Checkpoint

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NOTED_BYTES = 128 * 2**20
"""So many are written between two notes of how far it is."""


def download(
    blobs: Blobs,
    checkpoint: Checkpoint | Manifest,
    folder: Path,
    progress: Progress | None = None,
    *,
    shard_bytes: int = SHARD_BYTES,
    base: bool = True,
    force: bool = False,
) -> tuple[Path, ...]:
    """Write a checkpoint's models and state as ordinary files; returns their paths.

    Every byte is verified. Interrupted at any moment and called again, it goes on where it was;
    what was finished is not fetched again. When it has finished, the folder holds this one model,
    whatever sizes of shards earlier calls were given.

    Args:
        progress: called with the bytes written so far, and with all there are.
        shard_bytes: a model of more bytes is written in several files.
        base: write the models that adapters adapt, too, where there are adapters.
        force: replace what is in the way, whoever has written it, and other weights too.

    Raises:
        Damaged: if a file of the checkpoint is missing or is not what was written.
        UsageError: if the folder holds another checkpoint, or files that no download has put there
            and that it would replace, or whose weights a reader could take for the checkpoint's;
            if a file is where it needs a folder, or a folder where it needs a file.
        Unreachable: if the blobs did not answer.
        BurstError: if the folder cannot be written, or another download writes into it.
    """
    if shard_bytes < 1:
        raise UsageError(f"a file of {shard_bytes} bytes holds no tensor")
    reading = open_checkpoint(blobs, checkpoint)
    manifest = reading.manifest
    shared = StateFile.decode(bytes(reading.fetch(manifest.shared)))
    own = [StateFile.decode(bytes(reading.fetch(entry))) for entry in manifest.own]
    layout = plan(shared, shard_bytes, base=base)
    files = {entry.sha256: entry for entry in manifest.tensors}
    small = {
        name: text if isinstance(text, bytes) else _assembled(reading, files, shared, text)
        for name, text in layout.texts.items()
    }
    for name, under in layout.adapted.items():
        small[name] = _pointing(small[name], folder.absolute() / under)
    small["state.json"] = _state(manifest, shared, own)
    small["manifest.json"] = manifest.encode()
    target = Target(folder, force=force)
    with _disk(folder), target.held():
        _fill(target, reading, layout.outputs, small, progress)
    return tuple(folder / name for name in [*(o.name for o in layout.outputs), *small])


def _fill(
    target: Target,
    reading: Reading,
    outputs: Sequence[Output],
    small: Mapping[str, bytes],
    progress: Progress | None,
) -> None:
    """Make the files, the manifest last."""
    bar = _Bar(progress, sum(output.size for output in outputs))
    plans = {output.name: output.plan for output in outputs}
    target.check(list(plans), small)
    if target.complete(plans, small):
        bar.finish(sum(output.size for output in outputs))
        target.finish([*plans, *small])
        return
    target.begin(list(plans))
    for output in outputs:
        if not target.has(output.name, output.plan):
            _make(reading, output, target, bar)
        bar.finish(output.size)
    *others, manifest = small
    for name in others:
        target.put(name, small[name])
    target.clear([*plans, *small])
    target.put(manifest, small[manifest])
    target.finish([*plans, *small])


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


def _make(reading: Reading, output: Output, target: Target, bar: _Bar) -> None:
    files = {entry.sha256: entry for entry in reading.manifest.tensors}
    done = _done(target, output)
    sources = list(output.pieces)
    written = sum(files[digest].size for digest in sources[:done])
    noted = written
    with target.partial(output.name).open("r+b" if done else "w+b") as made:
        made.write(output.header)
        made.truncate(output.size)
        made.flush()
        fetched = reading.in_order([files[digest] for digest in sources[done:]])
        for number, (entry, data) in enumerate(fetched, start=done + 1):
            _copy(data, output.pieces[entry.sha256], _writer(made.fileno()))
            written += entry.size
            if written - noted >= _NOTED_BYTES:
                os.fsync(made.fileno())
                note = {"plan": output.plan, "done": number}
                write(target.note(output.name), json.dumps(note).encode())
                noted = written
            bar.show(min(written, output.size))
        os.fsync(made.fileno())
    target.place(output.name, output.plan)


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


def _pointing(config: bytes, base: Path) -> bytes:
    """An adapter's configuration; where it names no model that is adapted, it names the one that
    is written beside it."""
    table = json.loads(config)
    if table.get("base_model_name_or_path"):
        return config
    table["base_model_name_or_path"] = str(base)
    return json.dumps(table, indent=2, sort_keys=True).encode()


def _done(target: Target, output: Output) -> int:
    """How many source files an earlier call has written already."""
    try:
        note = json.loads(target.note(output.name).read_bytes())
        size = target.partial(output.name).stat().st_size
        return int(note["done"]) if (note["plan"], size) == (output.plan, output.size) else 0
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return 0


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


@contextmanager
def _disk(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BurstError(
            f"cannot write the checkpoint to {folder}",
            why=": ".join(filter(None, (error.strerror or str(error), str(error.filename or "")))),
            mend=f"{_mend(error)}, or name another folder; calling again goes on where it was",
        ) from error


def _mend(error: OSError) -> str:
    if error.errno in _FULL:
        return "free space there"
    if isinstance(error, FileExistsError | IsADirectoryError | NotADirectoryError):
        return "move away what is there"
    return "see that it can be written"
