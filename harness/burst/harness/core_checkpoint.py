"""`context.checkpoint` of the core API: a state, or a folder of files, saved and found again."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from burst.core.errors import BurstError, UsageError
from burst.core.model import Lengths
from burst.harness.checkpoints.port import CheckpointEngine
from burst.harness.session import Session

_FILES = "files"


class Saved:
    """A checkpoint that was found."""

    def __init__(self, checkpoint: str, batches: int, state: Any, own: Any) -> None:
        self.checkpoint = checkpoint
        """Its id."""
        self.batches = batches
        self.state = state
        """What `save` was given. Tensors are on the CPU."""
        self.own = None if own is None else own["state"]
        """What this rank gave as `own`; None if fewer ranks saved it."""
        self._random = None if own is None else own["random"]

    def restore_random_state(self) -> None:
        """Put all random generators back as they were. Do it last, just before training goes on:
        building models and loaders draws from them."""
        if self._random is not None:
            from burst.harness.checkpoints import rng

            rng.restore(self._random)


class CheckpointApi:
    def __init__(
        self,
        session: Session,
        open_engine: Callable[[], CheckpointEngine] | None,
        report_progress: Callable[[int], None],
    ) -> None:
        self.saved_at: int | None = None
        """Batches at the last checkpoint that was saved or restored."""
        self._session = session
        self._open = open_engine
        self._engine: CheckpointEngine | None = None
        self._progress = report_progress

    def save(self, state: Any, batches: int, *, own: Any = None,
             metrics: Mapping[str, float] | None = None) -> None:  # fmt: skip
        """Save a state: dicts and lists of tensors, arrays, numbers and strings. Durable when it
        returns; what was reported before is, too. Collective: every rank calls it.

        Args:
            state: what all ranks hold alike; rank 0's is kept.
            batches: batches trained so far.
            own: what this rank alone holds. Random generators are saved without being asked.
            metrics: validation metrics at this very batch.

        Raises:
            UsageError: outside an experiment, if `init` was given no folder.
            BurstError: if the state holds something else, naming it, or could not be saved.
            Fenced: a newer allocation owns the trial.
        """
        from burst.harness.checkpoints import rng
        from burst.harness.checkpoints.port import SaveRequest

        engine = self._get()
        self._progress(batches)
        if not self._session.flush(self._session.grace):
            raise BurstError("no checkpoint: the store does not answer")
        engine.save(
            SaveRequest(
                shared={"state": state, "progress": self._session.progress.state()},
                own={"state": own, "random": rng.capture()},
                done=Lengths(batches=batches),
                metrics=dict(metrics or {}),
            )
        )
        durable = engine.wait(self._session.grace)
        problems = engine.poll()
        if not durable or problems:
            raise BurstError("the checkpoint could not be saved", why="; ".join(problems))
        self.saved_at = batches

    def restore(self) -> Saved | None:
        """The trial's newest checkpoint, or None if it has none, or none is kept. Collective."""
        if self._open is None:
            return None
        engine = self._get()
        found = engine.restore()
        for problem in engine.poll():
            self._session.say(f"Warning: {problem}")
        if found is None:
            return None
        batches = 0 if found.warm else found.done.batches
        if not found.warm:
            self._continue(found.checkpoint, batches, found.shared)
        state = found.shared.get("state", found.shared)
        own = found.own if isinstance(found.own, dict) and "random" in found.own else None
        return Saved(found.checkpoint, batches, state, own)

    def _continue(self, checkpoint: str, batches: int, shared: Mapping[str, Any]) -> None:
        session = self._session
        session.progress.load_state(shared["progress"])
        self._progress(batches)
        self.saved_at = batches
        if session.reporter is not None:
            session.reporter.base = batches
        if session.chief:
            session.restored(checkpoint, batches)

    @contextmanager
    def store_path(self, batches: int) -> Iterator[Path]:
        """A folder to write files into; they are the checkpoint when the block ends. Only rank 0's
        files are kept. Collective."""
        with tempfile.TemporaryDirectory(prefix="burst-") as folder:
            yield Path(folder)
            self.save({_FILES: _read_files(Path(folder))}, batches)

    @contextmanager
    def restore_path(self) -> Iterator[Path | None]:
        """A folder with the files of the newest checkpoint, or None if there is none."""
        found = self.restore()
        if found is None:
            yield None
            return
        if not isinstance(found.state, dict) or _FILES not in found.state:
            raise UsageError(
                f"the checkpoint {found.checkpoint} holds a state, not files",
                mend="restore() gives what save() was given",
            )
        with tempfile.TemporaryDirectory(prefix="burst-") as folder:
            for name, data in found.state[_FILES].items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data.tobytes())
            yield Path(folder)

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()

    def _get(self) -> CheckpointEngine:
        if self._open is None:
            raise UsageError(
                "there is no place for checkpoints",
                why="this script runs outside an experiment",
                mend='give one: burst.harness.init(folder="state")',
            )
        if self._engine is None:
            self._engine = self._open()
        return self._engine


def _read_files(folder: Path) -> dict[str, Any]:
    import numpy as np

    return {
        path.relative_to(folder).as_posix(): np.fromfile(path, dtype=np.uint8)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
