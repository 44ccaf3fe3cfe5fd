"""Restores a checkpoint in a process to throw away, and says whether it is what was saved.

    python -m burst.harness.rehearse --store URL --checkpoint ID [--node NODE] [--code FOLDER]

The last line of stdout is a JSON object: `checkpoint`, `good`, `problems` (objects with `key` and
`text`), `notes` (what was not tried), `what` (what was restored), `files`, `size` (bytes),
`tensors`, `seconds`. The exit status is 0 if all is well and 1 if it is not; any other says that
it could not be tried, and nothing about the checkpoint.

Trees are decoded on the CPU with the engine's own functions and every tensor is compared with the
bytes of its files. With `--code` the trial is built from its code and loaded, too.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from burst.core.blobs import open_blobs
from burst.core.checkpoints.format.manifest import Damaged, FileEntry
from burst.core.checkpoints.reading import Reading, open_checkpoint
from burst.core.checkpoints.verify import in_words
from burst.core.errors import BurstError
from burst.core.model import Checkpoint, Experiment, Trial
from burst.core.store import open_store
from burst.core.store.port import Store

UNTRIED = 3
"""The exit status where something else than the checkpoint is in the way."""


@dataclass
class Finding:
    checkpoint: str
    good: bool = True
    problems: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    what: str = "decoded and compared"
    files: int = 0
    size: int = 0
    tensors: int = 0
    seconds: float = 0.0

    def wrong(self, key: str, text: str) -> None:
        self.good = False
        self.problems.append({"key": key, "text": text})


def rehearse(
    store: Store, checkpoint: str, *, node: str = "", code: Path | None = None
) -> Finding:
    """Restore a checkpoint and compare it with what was saved; memory as for its whole state.

    Args:
        node: the node that this process runs on, whose own disk may have a copy.
        code: the folder of the trial's code, to build the trial and load it as well.

    Raises:
        NotFound: there is no such checkpoint, or its trial is needed and not there.
        Unreachable: the store or the blobs did not answer.
    """
    begun = time.monotonic()
    record = store.get(Checkpoint, checkpoint)
    found = Finding(record.id)
    try:
        reading = open_checkpoint(open_blobs(record.url), record, node=node)
        _decode(reading, record, store, code, found)
    except Damaged as error:
        found.wrong(record.manifest, in_words(error))
    found.seconds = round(time.monotonic() - begun, 3)
    return found


def _decode(
    reading: Reading, record: Checkpoint, store: Store, code: Path | None, found: Finding
) -> None:
    manifest = reading.manifest
    found.files, found.size = 1 + len(manifest.files), manifest.size
    shared = _half(reading, manifest.shared, found)
    for own in manifest.own:
        _half(reading, own, found)
    if code is None or not found.good:
        return
    from burst.harness.trial.rebuilding import reload

    trial = store.get(Trial, record.trial)
    experiment = store.get(Experiment, record.experiment)
    try:
        problems = reload(experiment, trial, code, shared)
    except BurstError as error:
        problems = [f"{error.what}: {error.why}" if error.why else error.what]
    for text in problems:
        found.wrong(manifest.shared.key, text)
    found.what = "decoded, loaded into the trial and compared"


def _half(reading: Reading, half: FileEntry, found: Finding) -> Any:
    from burst.harness.checkpoints.codec.state_types import NotMade
    from burst.harness.checkpoints.restoring.decoding import decode_half

    try:
        decoded = decode_half(reading, half)
    except NotMade as error:
        found.wrong(half.key, f"{error.what}: {error.why}")
        return None
    except (ValueError, LookupError, TypeError) as error:
        found.wrong(half.key, f"{half.key} cannot be restored: {error}")
        return None
    found.tensors += decoded.tensors
    found.notes += decoded.notes
    for text in decoded.faults:
        found.wrong(half.key, f"{half.key}: {text}")
    return decoded.tree


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m burst.harness.rehearse")
    parser.add_argument("--store", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--node", default="")
    parser.add_argument("--code", type=Path)
    asked = parser.parse_args(words)
    try:
        store = open_store(asked.store)
        found = rehearse(store, asked.checkpoint, node=asked.node, code=asked.code)
        store.close()
    except BurstError as error:
        print(f"cannot rehearse {asked.checkpoint}: {error}", file=sys.stderr)
        return max(UNTRIED, int(error.exit_code))
    print(json.dumps(asdict(found)), flush=True)
    return 0 if found.good else 1


if __name__ == "__main__":
    sys.exit(main())
