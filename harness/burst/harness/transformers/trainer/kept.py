"""What burst keeps of a training, put together from what the Trainer has made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from burst.core.checkpoints.exchange.trainer_state import KEPT_AS
from burst.core.model import Lengths
from burst.harness import envelope
from burst.harness.transformers.trainer.connection import Connection
from burst.harness.transformers.trainer.loading import Followed
from burst.harness.transformers.trainer.memory import RankSums, TrainerMemory
from burst.harness.transformers.trainer.parts import Parts, TrainerState, data_of
from burst.harness.transformers.trainer.saves import Saves
from burst.harness.trial.keeper import Keeper
from burst.harness.trial.schedule import Periods, Schedule
from burst.harness.trial.units import Scale, period_of


@dataclass(frozen=True)
class Kept:
    parts: Parts
    memory: TrainerMemory
    sums: RankSums
    state: TrainerState
    keeper: Keeper
    saves: Saves

    @classmethod
    def of(cls, trainer: Any, link: Connection, followed: Followed, loader: Any) -> Kept:
        """
        Args:
            trainer: its model, optimizers and callbacks are those that train from now on.
            followed: the loader of the training data that it trains with.
            loader: the same as the Trainer made it.
        """
        session = link.session
        parts, memory, sums = (
            Parts(trainer, session.distributed),
            TrainerMemory(trainer),
            RankSums(trainer),
        )
        state = TrainerState(parts, {KEPT_AS: memory}, sums, followed, trainer=trainer)
        keeper = Keeper(
            state, session, _surroundings(trainer, link, parts, loader), link.terms.start
        )
        saves = Saves(
            session, keeper, _schedule(trainer, link), lambda seconds: _lengths(trainer, seconds)
        )
        return cls(parts, memory, sums, state, keeper, saves)


def _schedule(trainer: Any, link: Connection) -> Schedule:
    terms = link.terms
    automatic = terms.every == "auto"
    epoch = trainer.state.max_steps // max(1, int(trainer.state.num_train_epochs))
    batch = int(trainer.get_total_train_batch_size(trainer.args))
    period = period_of(None if automatic else terms.every, Scale(epoch or None, batch))
    return Schedule(
        Periods(checkpoint=period, auto=automatic),
        target=int(trainer.state.max_steps),
        seconds=terms.seconds,
        conditions=link.session.conditions,
    )


def _lengths(trainer: Any, seconds: float) -> Lengths:
    state = trainer.state
    steps = int(state.global_step)
    return Lengths(
        batches=steps,
        records=steps * int(trainer.get_total_train_batch_size(trainer.args)),
        epochs=float(state.epoch or 0.0),
        seconds=seconds,
    )


def _surroundings(trainer: Any, link: Connection, parts: Parts, loader: Any) -> dict[str, Any]:
    return envelope.capture(
        ranks=link.session.distributed.size,
        device=str(trainer.args.device),
        optimizers=[wrapped.optimizer for wrapped in parts.optimizers],
        data=data_of(loader),
        seed=int(trainer.args.seed),
        mode=link.terms.mode,
    )
