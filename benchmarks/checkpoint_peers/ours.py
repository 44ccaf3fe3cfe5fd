"""burst's checkpoints as a trial has them: its store, its files, and the loop's way to save."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from benchmarks.checkpoint_peers.state import Training
from burst.core.checkpoints.format.manifest import Manifest
from burst.core.model import Lengths
from burst.harness import DataLoader, envelope
from burst.harness.checkpoints.port import CheckpointEngine, Restored, SaveRequest
from burst.harness.connect import folder_link, meet, open_engine, open_session
from burst.harness.trial.context import PyTorchTrialContext, Setting
from burst.harness.trial.keeper import Keeper
from burst.harness.trial.metrics import TrainingMetrics
from burst.harness.trial.state import TrialState


class Ours:
    """A trial around a model in training. Saves through what the training loop calls."""

    name = "burst"
    note = "hashed, with manifest and record"

    def __init__(self, training: Training, folder: Path) -> None:
        """Opens the trial in `folder`, which is begun if it is new."""
        self.folder = folder
        gang = meet("cpu")
        link = folder_link(folder, gang)
        self._session = open_session(link, gang)
        self.engine: CheckpointEngine = open_engine(link, self._session)
        self._session.engine = self.engine
        self._context = PyTorchTrialContext(Setting(), self._session)
        self._context.wrap_model(training.model)
        self._context.wrap_optimizer(training.optimizer)
        source = DataLoader(torch.utils.data.TensorDataset(torch.zeros(8, 1)), batch_size=1)
        self._state = TrialState(
            self._context, {}, TrainingMetrics(), source.training_source(seed=0, rank=0, ranks=1)
        )
        self._surroundings = envelope.capture(
            ranks=1,
            device="cpu",
            optimizers=[training.optimizer],
            data="",
            seed=0,
            mode="seeded",
        )
        self._keeper = Keeper(self._state, self._session, self._surroundings)
        self._optimizer = training.optimizer

    def prepare(self) -> None:
        """Get memory ready, as the loop does after its first step."""
        self._keeper.prepare()
        for thread in threading.enumerate():
            if thread.name == "burst-checkpoint-touch":
                thread.join()

    def save(self) -> float:
        """Save as the loop does; returns the seconds until training may go on."""
        self._context.batch += 1
        begun = time.perf_counter()
        self._keeper.save(Lengths(batches=self._context.batch))
        return time.perf_counter() - begun

    def save_eagerly(self) -> float:
        """The same where everything is copied at once, as after a torn save. The files are those
        of the other saves, so that both use the same memory."""
        self._context.batch += 1
        optimizers = [wrapped.optimizer for wrapped in self._context.optimizers]
        engine: Any = self.engine
        engine._lazy = False
        begun = time.perf_counter()
        models = self._state.look()
        self.engine.save(
            SaveRequest(
                shared=self._state.shared(models),
                own=self._state.own(models),
                done=Lengths(batches=self._context.batch),
                envelope=self._surroundings,
                optimizers=optimizers,
            )
        )
        blocked = time.perf_counter() - begun
        engine._lazy = True
        return blocked

    def busy(self) -> bool:
        return self.engine.busy()

    def wait(self) -> None:
        """Return once what was saved counts.

        Raises:
            RuntimeError: if it does not.
        """
        if not self.engine.wait(120.0):
            raise RuntimeError(f"a checkpoint was not saved: {self.engine.poll()}")

    def restore(self, into: Mapping[str, Any] | None = None) -> Restored:
        """The last checkpoint, put into live tensors."""
        found = self.engine.restore(self._state.into() if into is None else into)
        if found is None:
            raise RuntimeError("there is no checkpoint")
        return found

    def resume(self) -> None:
        """Restore as a trial does that is started again."""
        if self._keeper.restore() is None:
            raise RuntimeError("there is no checkpoint")

    def live(self) -> dict[str, Any]:
        """The tensors of models and optimizers in the shape in which they are saved."""
        shared = self._state.shared(self._state.look())
        return {name: shared[name] for name in ("models", "optimizers")}

    def clear(self, keep: int = 0) -> None:
        """Make room, outside of what is measured; the newest `keep` checkpoints stay whole."""
        found = sorted(self.folder.rglob("manifest.json"))
        needed = {
            self.folder / file.key
            for manifest in found[len(found) - keep :]
            for file in Manifest.decode(manifest.read_bytes()).files
        }
        for manifest in found[: len(found) - keep]:
            for path in manifest.parent.iterdir():
                if path not in needed:
                    path.unlink()

    def close(self) -> None:
        self._session.close()
