"""`pytorch_init`: a PyTorchTrial trained from a script of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from burst.core.config.experiment import ExperimentConfig, Optimizations
from burst.core.launch import LaunchSpec, Outcome, read_launch
from burst.core.model import ExitKind
from burst.harness import determinism
from burst.harness.arguments import folder_of, named_values, whole_number
from burst.harness.connect import folder_link, meet, open_engine, open_session
from burst.harness.distributed import gang_of_one
from burst.harness.keeping import KEEP
from burst.harness.leaving import leave_badly, leave_well
from burst.harness.process import Terminated
from burst.harness.rank import others_failed
from burst.harness.session import Session
from burst.harness.trial.context import PyTorchTrialContext, Setting
from burst.harness.trial.run import connect, setting_of

_LARGEST_SEED = 2**63 - 1


@contextmanager
def pytorch_init(
    *,
    hparams: Mapping[str, Any] | None = None,
    exp_conf: Mapping[str, Any] | None = None,
    aggregation_frequency: int = 1,
    seed: int = 0,
    folder: str | Path | None = None,
    keep: int | None = KEEP,
) -> Iterator[PyTorchTrialContext]:
    """The context for a PyTorchTrial in a script: `Trainer(Trial(context), context).fit(...)`.

    In an experiment whose entrypoint is the script, everything comes from the experiment. Outside,
    the arguments count and metrics are printed.

    Args:
        hparams: hyperparameters.
        exp_conf: what `get_experiment_config` and `get_data_config` give.
        aggregation_frequency: batches whose gradients make one optimizer step.
        seed: of data order, weights and everything random; 0 to 2^63 - 1.
        folder: where metrics and checkpoints are kept; a script started again continues. None
            keeps nothing.
        keep: how many checkpoints stay there beside the best, as in `burst.harness.init`.

    Raises:
        UsageError: these are not such, or the folder cannot be used.
    """
    given, own_config = named_values("hparams", hparams), named_values("exp_conf", exp_conf)
    own_folder = folder_of(folder)
    whole_number("aggregation_frequency", aggregation_frequency, least=1)
    whole_number("seed", seed, least=0, most=_LARGEST_SEED)
    kept = None if keep is None else whole_number("keep", keep, least=1)
    spec = read_launch()
    session: Session | None = None
    try:
        if spec is not None:
            config = ExperimentConfig.model_validate(spec.config)
            determinism.prepare(config.reproducibility.mode, spec.threads)
            session = _launched(spec, config)
            setting = setting_of(spec, config)
        else:
            determinism.prepare("seeded", None)
            session = _alone(own_folder, kept)
            optimizations = Optimizations(aggregation_frequency=aggregation_frequency)
            setting = _own_setting(session, given, own_config, seed, optimizations)
        if setting.mode != "off":
            determinism.seed_all(setting.seed)
        with gang_of_one():
            yield PyTorchTrialContext(setting, session)
        leave_well(session, spec, session.outcome or Outcome(kind=ExitKind.COMPLETED))
    except BaseException as error:
        determinism.explain(error)
        leave_badly(session, spec, error)
        raise


def _own_setting(
    session: Session,
    hparams: Mapping[str, Any],
    config: Mapping[str, Any],
    seed: int,
    optimizations: Optimizations,
) -> Setting:
    return Setting(
        hparams=hparams,
        config=config,
        experiment=session.experiment,
        trial=session.trial,
        seed=seed,
        device=_own_device(),
        optimizations=optimizations,
    )


def _launched(spec: LaunchSpec, config: ExperimentConfig) -> Session:
    rank = int(os.environ.get("RANK", "0"))
    terminated = Terminated(lambda: others_failed(spec, rank))
    return connect(spec, config, lambda: terminated.asked)


def _alone(folder: Path | None, keep: int | None) -> Session:
    gang = meet(_own_device())
    link = None if folder is None else replace(folder_link(folder, gang), keep=keep)
    session = open_session(link, gang)
    session.loud = True
    if link is not None:
        session.engine = open_engine(link, session)
    return session


def _own_device() -> str:
    import torch

    if not torch.cuda.is_available():
        return "cpu"
    return f"cuda:{int(os.environ.get('LOCAL_RANK', '0')) % torch.cuda.device_count()}"
