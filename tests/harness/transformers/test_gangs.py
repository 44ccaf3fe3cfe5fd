"""Gangs that a script starts itself."""

from __future__ import annotations

import pytest

from burst.core.launch import LaunchSpec
from burst.harness.transformers.script.gangs import in_gang_of_its_own


def launch(ranks: int) -> LaunchSpec:
    return LaunchSpec(
        folder="f", store_url="", blobs_url="", checkpoints_url="", experiment="exp-1",
        trial="exp-1.t0000", allocation="alloc-1", node="node-1", attempt=1, token=1, hparams={},
        seed=1, config={}, nodes=2, ranks_per_node=ranks,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("environ", "own"),
    [
        ({"WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "alloc-1"}, False),
        ({"WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "none"}, True),
        ({"WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "alloc-1"}, True),
        ({}, False),
    ],
)
def test_a_gang_is_known_by_its_name_and_its_size(environ: dict[str, str], own: bool) -> None:
    assert in_gang_of_its_own(launch(2), environ) is own


def test_a_trial_of_one_process_may_start_a_gang() -> None:
    alone = launch(1).model_copy(update={"nodes": 1})
    environ = {"WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none"}
    assert not in_gang_of_its_own(alone, environ)
