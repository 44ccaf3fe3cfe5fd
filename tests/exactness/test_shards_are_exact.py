"""A model that its trial has sharded is as exact as any: however it is interrupted, it ends equal
to the bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.exactness.support import Bench, Ending

SHARDED = '''

class ShardedGptTrial(TinyGptTrial):
    """The same model with its layers and embeddings spread over the ranks by FSDP."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        from torch.distributed.fsdp import fully_shard

        wrap = context.wrap_model

        def wrap_sharded(model: Any) -> Any:
            for block in model.transformer.h:
                fully_shard(block)
            return wrap(fully_shard(model))

        context.wrap_model = wrap_sharded
        super().__init__(context)
'''
SETTINGS = (
    "resources.slots_per_trial=2",
    "environment.variables.WORKERS=1",
    "optimizations.aggregation_frequency=2",
    "searcher.max_length=12ba",
    "validate.every=6ba",
    "checkpoints.every=5ba",
    "report_every=5ba",
)


def _run(folder: Path, *interruptions: str) -> Ending:
    folder.mkdir()
    bench = Bench.of_example("tiny_gpt", "ShardedGptTrial", folder)
    with (bench.code / "train.py").open("a") as code:
        code.write(SHARDED)
    return bench.run(SETTINGS, interruptions)


@pytest.mark.slow
def test_a_sharded_run_that_goes_on_inside_an_accumulation_ends_byte_identical(
    tmp_path: Path,
) -> None:
    uninterrupted = _run(tmp_path / "uninterrupted")
    interrupted = _run(tmp_path / "interrupted", "kill-7")
    assert uninterrupted.validations
    assert interrupted == uninterrupted
