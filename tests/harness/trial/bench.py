"""Two trials in one store on disk, one of which starts from what the other has saved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from burst.core.config.experiment import WarmStart
from burst.core.ids import trial_id
from burst.core.model import Checkpoint, Code, Experiment, Trial
from burst.core.store import open_store, update
from burst.core.store.port import Put, Store
from burst.harness import Epoch, PyTorchTrial, PyTorchTrialContext, Trainer
from burst.harness.connect import Link, open_engine, open_session
from burst.harness.core_api import CoreContext
from burst.harness.core_checkpoint import CheckpointApi
from burst.harness.determinism import seed_all
from burst.harness.distributed import DistributedContext, Place
from burst.harness.session import Session
from burst.harness.trial.context import Setting
from tests.harness.trial.lab import EXPERIMENT, HPARAMS, TinyTrial

SOURCE, TARGET = trial_id(EXPERIMENT, 0), trial_id(EXPERIMENT, 1)


@dataclass
class Bench:
    """Two trials in one store on disk."""

    folder: Path

    def __post_init__(self) -> None:
        self.store: Store = open_store(f"sqlite://{self.folder / 'store.db'}")
        code = Code(digest="", size=0)
        self.store.commit(
            Put(
                Experiment(
                    id=EXPERIMENT, name="x", owner="", created=0, config={}, code=code,
                    state_since=0,
                )
            ),
            *(
                Put(
                    Trial(
                        id=id, experiment=EXPERIMENT, number=n, seed=1, slots=1, pools=("local",),
                        created=0, queued=0, state_since=0,
                    )
                )
                for n, id in enumerate((SOURCE, TARGET))
            ),
        )  # fmt: skip

    @property
    def blobs_url(self) -> str:
        return f"file://{self.folder / 'blobs'}"

    def link(self, trial: str, warm_start: str) -> Link:
        def next_one(found: Trial) -> Trial:
            return found.model_copy(update={"token": found.token + 1})

        token = update(self.store, Trial, trial, next_one).token
        return Link(
            store_url=self.store.url,
            checkpoints_url=self.blobs_url,
            experiment=EXPERIMENT,
            trial=trial,
            attempt=token,
            token=token,
            warm_start=warm_start,
        )

    def train(
        self,
        trial: str,
        epochs: int,
        *,
        start: WarmStart | None = None,
        seed: int = 1,
        kind: type[PyTorchTrial] = TinyTrial,
        stop: Callable[[PyTorchTrialContext], bool] = lambda _: False,
    ) -> PyTorchTrialContext:
        link = self.link(trial, start.checkpoint if start else "")
        session = open_session(
            link, DistributedContext(Place()), asked=lambda: stop(context), grace=60.0
        )
        session.engine = open_engine(link, session)
        setting = Setting(
            hparams=HPARAMS, experiment=EXPERIMENT, trial=trial, seed=seed, start=start
        )
        seed_all(seed)
        context = PyTorchTrialContext(setting, session)
        try:
            Trainer(kind(context), context).fit(
                max_length=Epoch(epochs), validation_period=Epoch(1), checkpoint_policy="none"
            )
        finally:
            session.close()
        return context

    def core(self, trial: str, start: str = "", *, everything: bool = False) -> CheckpointApi:
        link = self.link(trial, start)
        session = open_session(link, DistributedContext(Place()), grace=60.0)
        self.session: Session = session
        context = CoreContext(session, link, None, {}, None)
        what = WarmStart(checkpoint=start, what="everything" if everything else "weights")
        made = CheckpointApi(
            session,
            lambda: open_engine(link, session),
            context.train.report_progress,
            what if start else None,
        )
        return made

    def newest(self, trial: str) -> Checkpoint:
        return self.store.get(Checkpoint, self.store.get(Trial, trial).checkpoint)

    def events(self) -> list[str]:
        return [e.text for e in self.store.events().events if e.name == "trial.warm_start"]
