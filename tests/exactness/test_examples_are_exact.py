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
BATCHES = {"digits": (17, 41, 77), "tiny_gpt": (9, 21, 39)}
"""Where runs are interrupted: inside epochs, off checkpoints, between accumulated batches."""


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
def test_paused_or_killed_three_times_a_run_ends_byte_identical(
    example: str, ranks: int, tmp_path: Path
) -> None:
    slots = f"resources.slots_per_trial={ranks}"
    pauses = [f"pause-{batch}" for batch in BATCHES[example]]
    kills = [f"kill-{batch}" for batch in BATCHES[example]]
    uninterrupted = _run(tmp_path / "uninterrupted", example, slots, interruptions=[])
    paused = _run(tmp_path / "paused", example, slots, interruptions=pauses)
    killed = _run(tmp_path / "killed", example, slots, interruptions=kills)
    assert uninterrupted.validations
    assert paused == uninterrupted
    assert killed == uninterrupted


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
