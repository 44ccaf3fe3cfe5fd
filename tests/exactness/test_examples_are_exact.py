"""Exactness is the product: however a run is interrupted, it ends equal to the bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.exactness.support import Bench, Ending

EXAMPLES = {
    "digits": (
        "DigitsTrial",
        ["searcher.max_length=90ba", "validate.every=30ba", "checkpoints.every=20ba"],
    ),
    "tiny_gpt": (
        "TinyGptTrial",
        ["searcher.max_length=48ba", "validate.every=16ba", "checkpoints.every=10ba"],
    ),
}
INTERRUPTIONS = {
    "digits": ["pause-17", "kill-41", "pause-77"],
    "tiny_gpt": ["kill-9", "pause-21", "kill-39"],
}
"""Inside epochs, off checkpoints, between accumulated batches."""


def _run(folder: Path, example: str, *settings: str, interruptions: list[str]) -> Ending:
    base, lengths = EXAMPLES[example]
    folder.mkdir()
    bench = Bench.of_example(example, base, folder)
    common = ["optimizations.aggregation_frequency=2", "report_every=5ba", *lengths]
    if not any("WORKERS" in setting for setting in settings):
        common.append("environment.variables.WORKERS=2")
    return bench.run([*common, *settings], interruptions)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("example", ["digits", "tiny_gpt"])
def test_paused_and_killed_three_times_a_run_ends_byte_identical(
    example: str, ranks: int, tmp_path: Path
) -> None:
    slots = f"resources.slots_per_trial={ranks}"
    uninterrupted = _run(tmp_path / "uninterrupted", example, slots, interruptions=[])
    interruptions = INTERRUPTIONS[example]
    interrupted = _run(tmp_path / "interrupted", example, slots, interruptions=interruptions)
    assert uninterrupted.validations
    assert interrupted == uninterrupted


@pytest.mark.slow
def test_the_number_of_loader_workers_changes_nothing(tmp_path: Path) -> None:
    endings = {
        workers: _run(
            tmp_path / str(workers),
            "digits",
            f"environment.variables.WORKERS={workers}",
            "searcher.max_length=40ba",
            interruptions=[],
        )
        for workers in (0, 1, 2)
    }
    assert endings[0] == endings[1] == endings[2]
