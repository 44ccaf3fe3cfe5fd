"""State that is opened at another path than before: the folder was moved, or copied.

Records name the places of checkpoints by their whole paths. In a copy, those would still lie in
the original, and whoever deletes a checkpoint of the copy would take the original's files. So a
folder of state knows its own path, and where that has changed, places within it are named anew.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from burst.core.blobs.local_file import write_whole
from burst.core.checkpoints.removal.uses import IMPORTS
from burst.core.model import Checkpoint, Experiment, Trial
from burst.core.state_mark import STATE_MARK
from burst.core.store import update
from burst.core.store.port import Put, Store, Write


def settle_in(folder: Path, store: Store) -> int:
    """Let the records of a store that lies in `folder` name places in it as they are called now;
    returns how many had to. Idempotent; costs a read of one small file where nothing has changed.

    The folder has to have its mark, which keeps the paths that it was opened at, the last of them
    last.
    """
    mark, now = folder / STATE_MARK, str(folder.absolute())
    known: list[str] = json.loads(mark.read_text() or "[]")
    if known[-1:] == [now]:
        return 0
    changed = 0
    others = [path for path in known if path != now and not _is_same(Path(path), folder)]
    for record in _checkpoints(store) if others else ():
        changed += _rename(store, record, [f"file://{path}" for path in others], f"file://{now}")
    text = json.dumps([*(path for path in known if path != now), now])
    write_whole(mark, lambda file: file.write(text.encode()))
    return changed


def _is_same(before: Path, now: Path) -> bool:
    """Whether both paths lead to one folder, as they do where it is mounted twice."""
    with suppress(OSError):
        return before.samefile(now)
    return False


def _checkpoints(store: Store) -> list[Checkpoint]:
    trials = [
        trial.id
        for experiment in store.children(Experiment, "")
        for trial in store.children(Trial, experiment.id)
    ]
    return [each for trial in (IMPORTS, *trials) for each in store.children(Checkpoint, trial)]


def _rename(store: Store, record: Checkpoint, before: Sequence[str], now: str) -> bool:
    def renamed(url: str) -> str:
        for old in before:
            if url == old or url.startswith(f"{old}/"):
                return now + url.removeprefix(old)
        return url

    def change(found: Checkpoint) -> Sequence[Write]:
        copies = tuple(copy.model_copy(update={"url": renamed(copy.url)}) for copy in found.copies)
        after = found.model_copy(update={"url": renamed(found.url), "copies": copies})
        return () if after == found else (Put(after),)

    return update(store, Checkpoint, record.id, change).version != record.version
