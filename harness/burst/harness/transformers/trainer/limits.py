"""What of a Trainer's ways of training burst cannot keep, or this machine cannot do."""

from __future__ import annotations

from typing import Any

from burst.harness.distributed import Place
from burst.harness.errors import TrialError
from burst.harness.precision import check_bfloat16, hardware_of
from burst.harness.trial.models import flat_shards_refused


def check(trainer: Any) -> None:
    """See, before anything is trained, that a Trainer can be trained here.

    Raises:
        TrialError: it does not see the other ranks, is sharded by torch's first FSDP, or asks for
            bfloat16 of a GPU without it.
    """
    args, ranks = trainer.args, Place.from_environment().size
    if ranks > 1 and args.world_size == 1:
        raise TrialError(
            f"the Trainer trains alone in each of {ranks} ranks",
            why="it finds no GPU, and joins the ranks of a CPU only where it is told to use it",
            mend="write use_cpu=True in its TrainingArguments, or set `slots_per_trial: 1`",
        )
    if trainer.is_fsdp_enabled and _version_of_fsdp(trainer) == 1:
        raise flat_shards_refused()
    if args.bf16:
        check_bfloat16(hardware_of(str(args.device)), "bf16=True", "fp16=True")


def why_not_kept(trainer: Any) -> str:
    """Why checkpoints of a Trainer's training cannot be kept; empty where they can."""
    if trainer.hp_search_backend is not None:
        return "hyperparameter_search trains one candidate after the other"
    if trainer.is_deepspeed_enabled:
        return "DeepSpeed keeps the optimizer's state in files of its own"
    return ""


def _version_of_fsdp(trainer: Any) -> int:
    plugin = trainer.accelerator.state.fsdp_plugin
    return int(getattr(plugin, "fsdp_version", 1))
