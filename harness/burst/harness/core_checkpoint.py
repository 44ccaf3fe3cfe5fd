"""`context.checkpoint` of the core API: a state, or a folder of files, saved and found again."""

from __future__ import annotations

import operator
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from burst.core.config.experiment import WarmStart
from burst.core.errors import BurstError, UsageError
from burst.core.model import Lengths
from burst.harness.arguments import metric_names
from burst.harness.checkpoints.port import CheckpointEngine, Restored
from burst.harness.errors import MetricError
from burst.harness.session import Session
from burst.harness.trial.expected import Usual
from burst.harness.values import shown, to_floats

_MOST_BATCHES = 2**53


class Saved:
    """A checkpoint that was found."""

    def __init__(self, found: Restored, batches: int, *, weights: bool = False) -> None:
        """`weights`: whether it is another trial's, of which the weights are to be taken."""
        self.checkpoint = found.checkpoint
        """Its id."""
        self.batches = batches
        """Where training goes on: 0 where only weights are taken."""
        self.warm = found.warm
        """Whether it is another trial's or an imported one: where to start from (`--from`)."""
        shared = found.shared
        self.state = shared.get("state", shared) if isinstance(shared, dict) else shared
        """What `save` was given. Tensors are on the CPU."""
        own = found.own if isinstance(found.own, dict) and "random" in found.own else None
        own = None if weights else own
        self.own = None if own is None else own["state"]
        """What this rank gave as `own`; None if fewer ranks saved it."""
        self._random = None if own is None else own["random"]

    def load_weights(self, model: Any, *, name: str = "", partial: bool = False) -> str:
        """Put a model's parameters and buffers into `model`, whoever saved them: this script, a
        trial class, or `burst checkpoint import`. Returns what was taken, in words.

        Args:
            name: where it lies in the checkpoint, if that holds several, such as `generator`.
            partial: take what fits, and leave everything else as it is.

        Raises:
            TrialError: it does not fit, naming what does not; nothing was changed.
            UsageError: there are several models, or none of this name.
        """
        from burst.harness.trial.warm import load_weights, state_dicts

        found = state_dicts(self.state)
        if name not in found and (name or len(found) > 1):
            raise UsageError(
                f"checkpoint {self.checkpoint} holds several models" if not name else
                f"checkpoint {self.checkpoint} holds no model {name!r}",
                mend=f"give a name: {', '.join(found)}" if found else "",
            )  # fmt: skip
        chosen = found[name] if name else next(iter(found.values()), None)
        shared = {"models": [] if chosen is None else [chosen]}
        return load_weights([model], shared, checkpoint=self.checkpoint, partial=partial)

    def restore_random_state(self) -> None:
        """Put all random generators back as they were. Do it last, just before training goes on:
        building models and loaders draws from them."""
        if self._random is not None:
            from burst.harness.checkpoints.codec import rng

            rng.restore(self._random)


class CheckpointApi:
    def __init__(
        self,
        session: Session,
        open_engine: Callable[[], CheckpointEngine] | None,
        report_progress: Callable[[int], None],
        start: WarmStart | None = None,
    ) -> None:
        """`start`: what to take of another trial's checkpoint, where the engine gives one."""
        self.saved_at: int | None = None
        """Batches at the last checkpoint that was saved or restored."""
        self._session = session
        self._open = open_engine
        self._engine: CheckpointEngine | None = None
        self._progress = report_progress
        self._start = start
        self._asked = False
        self._exports: dict[str, Any] = {"models": [], "tokenizer": {}}
        self._usual = Usual(session.clock)
        session.progress.training_since = session.clock.now()
        session.progress.checkpoint_interval = self._usual

    def register_model(self, model: Any, tokenizer: Any = None) -> None:
        """Keep, from now on, what others need to load a model of transformers whose state dict
        `save` is given: its configuration, and its tokenizer's files. `burst checkpoint download`
        writes them. Of several models, register each, in the order of the state.

        Raises:
            TrialError: the tokenizer does not write files, or too large ones.
        """
        from burst.harness.trial.exports import export_of, tokenizer_files

        self._exports["models"].append(export_of(model))
        if tokenizer is not None:
            self._exports["tokenizer"].update(tokenizer_files(tokenizer))

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
            UsageError: outside an experiment, if `init` was given no folder; or an argument is not
                what it has to be: batches only grow while a script runs, and of two states at the
                same batch the later one counts.
            BurstError: if the state holds something else, naming it, or could not be saved.
            Fenced: a newer allocation owns the trial.
        """
        from burst.harness.checkpoints.codec import rng
        from burst.harness.checkpoints.port import SaveRequest

        batches, values = self._forward(batches), _numbers(metrics)
        engine = self._get()
        self._progress(batches)
        if not self._session.flush(self._session.grace):
            raise BurstError("no checkpoint: the store does not answer")
        shared = {"state": state, "progress": self._session.progress.state()}
        if self._exports["models"]:
            shared["exports"] = self._exports
        engine.save(
            SaveRequest(
                shared=shared,
                own={"state": own, "random": rng.capture()},
                done=Lengths(batches=batches),
                metrics=values,
            )
        )
        durable = engine.wait(self._session.grace)
        problems = engine.poll()
        if not durable or problems:
            raise BurstError("the checkpoint could not be saved", why="; ".join(problems))
        self.saved_at = batches
        self._usual.saved()

    def restore(self) -> Saved | None:
        """The trial's newest checkpoint; else the one that it starts from (`warm`); else None.
        Collective.

        Raises:
            UsageError: what it starts from with everything was not saved by a script.
        """
        if self._open is None:
            return None
        engine = self._get()
        self._asked = True
        found = engine.restore()
        for problem in engine.poll():
            self._session.say(f"Warning: {problem}")
        if found is None:
            self._progress(0)
            return None
        if found.warm and not (self._start and self._start.what == "everything"):
            text = f"starts from checkpoint {found.checkpoint}"
            self._session.tell("trial.warm_start", text, checkpoint=found.checkpoint)
            self._progress(0)
            return Saved(found, 0, weights=True)
        self._continue(found)
        return Saved(found, found.done.batches)

    def _continue(self, found: Restored) -> None:
        session, batches = self._session, found.done.batches
        if not isinstance(found.shared, dict) or "progress" not in found.shared:
            raise UsageError(
                f"checkpoint {found.checkpoint} was not saved by a script",
                why="it is a trial class's, or was imported",
                mend=session.other_start(found.warm),
            )
        session.goes_on_at(batches)
        if found.warm:
            text = f"goes on from checkpoint {found.checkpoint}, batch {batches}"
            session.tell("trial.warm_start", text, checkpoint=found.checkpoint)
        else:
            session.progress.load_state(found.shared["progress"])
            self.saved_at = batches
        self._progress(batches)
        if session.chief:
            session.restored(found.checkpoint, batches)

    @contextmanager
    def store_path(self, batches: int) -> Iterator[Path]:
        """A folder to write into; what is in it when the block ends is the checkpoint: files, the
        permissions of each, and folders, empty ones too. Links are followed. Where the block
        raises, nothing is saved. Only rank 0's files are kept. Collective.

        Raises:
            UsageError: on every rank: the folder is gone or empty, holds what is neither file nor
                folder, or another rank has written a file that rank 0 has not.
            As `save`.
        """
        self._forward(batches)
        with tempfile.TemporaryDirectory(prefix="burst-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
            self.save(self._files_of(Path(folder)), batches)

    def _files_of(self, folder: Path) -> dict[str, Any]:
        """What rank 0 has written, on rank 0. Every rank raises what one has to."""
        from burst.harness.folders import check_others, names_of, read_folder

        state: dict[str, Any] = {}
        problem: list[str] = []
        distributed = self._session.distributed
        names = distributed.allgather(names_of(folder))
        try:
            check_others(names)
            if distributed.rank == 0:
                state = read_folder(folder)
        except UsageError as error:
            problem = [error.what, error.why, error.mend]
        told = next(filter(None, distributed.allgather(problem)), None)
        if told is not None:
            raise UsageError(told[0], why=told[1], mend=told[2])
        return state

    @contextmanager
    def restore_path(self) -> Iterator[Path | None]:
        """A folder with what `store_path` has kept in the newest checkpoint, or None if there is
        none. It goes when the block ends. Collective.

        Raises:
            UsageError: the newest checkpoint holds a state, which `save` was given.
        """
        from burst.harness.folders import is_folder, write_folder

        found = self.restore()
        if found is None:
            yield None
            return
        if not is_folder(found.state):
            raise UsageError(
                f"the checkpoint {found.checkpoint} holds a state, not files",
                mend="restore() gives what save() was given",
            )
        with tempfile.TemporaryDirectory(prefix="burst-", ignore_cleanup_errors=True) as folder:
            write_folder(found.state, Path(folder))
            yield Path(folder)

    def close(self) -> None:
        if self._start is not None and not self._asked:
            self._session.warn(
                "trial.warm_start",
                f"this script did not start from {self._start.checkpoint}, as it never calls "
                "context.checkpoint.restore()",
            )
        if self._engine is not None:
            self._engine.close()

    def _forward(self, batches: Any) -> int:
        """The number of batches of a state that may be saved now.

        Raises:
            UsageError: it is none, or lies before what was saved or restored.
        """
        counted = counted_batches(batches)
        if self.saved_at is not None and counted < self.saved_at:
            raise UsageError(
                f"a state at batch {counted} cannot be saved after one at batch {self.saved_at}",
                why="the checkpoint of the most batches is the one to go on from, so this one "
                "would never be restored",
                mend="count batches from the beginning of training, those before a restart too",
            )
        return counted

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


def counted_batches(value: Any) -> int:
    """`value`, if it is a number of batches.

    Raises:
        UsageError: it is not.
    """
    try:
        batches = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        batches = -1
    if 0 <= batches < _MOST_BATCHES:
        return batches
    raise UsageError(
        f"{shown(value)} is no number of batches",
        why="batches are counted from the beginning of training: 0, 1, 2, …",
    )


def _numbers(metrics: Mapping[str, float] | None) -> dict[str, float]:
    """`metrics`, each as a float.

    Raises:
        UsageError: one is no number, or has no name that can be kept.
    """
    if metrics is None:
        return {}
    if not isinstance(metrics, Mapping):
        raise UsageError(
            "metrics= is a mapping of names to numbers", why=f"it is {shown(metrics)}"
        )
    metric_names("validation", metrics)
    try:
        return to_floats(metrics)
    except MetricError as error:
        raise UsageError(error.what, why=error.why, mend=error.mend) from None
