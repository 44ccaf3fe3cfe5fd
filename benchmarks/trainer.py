"""An unmodified Trainer script under burst, beside the same script alone: steps a second, what a
save holds up, and how long it takes to go on."""

from __future__ import annotations

import logging
import statistics
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import torch

from benchmarks.result import Result
from benchmarks.trainer_scripts.resumed import ROUNDS, ROWS, first_steps
from benchmarks.trainer_scripts.scripts import VOCABULARY, bert_tiny, tiniest
from benchmarks.trainer_scripts.turns import Compared, Rate, Script, by_turns

RATIO = 0.98
SLOWER = 1.2
EARLY, LATE = 10, 100_000
BERT = Script(bert_tiny, VOCABULARY, steps=12, turns=40)
TINIEST = Script(tiniest, 64, steps=100, turns=40)
SAVING = Script(bert_tiny, VOCABULARY, steps=24, turns=30, saves=True)


def measure() -> list[Result]:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as folder, redirect_stderr(StringIO()):
            return list(_measured(Path(folder)))
    finally:
        torch.set_num_threads(threads)
        logging.disable(logging.NOTSET)


def _measured(folder: Path) -> Iterator[Result]:
    yield from _steps("BERT-tiny", by_turns(BERT, folder / "bert"))
    yield from _steps("the tiniest BERT", by_turns(TINIEST, folder / "tiniest"))
    yield from _saves(by_turns(SAVING, folder / "saving"))
    yield from _resume(folder)


def _steps(name: str, found: Compared) -> Iterator[Result]:
    yield _rate(
        f"steps of {name}",
        found,
        found.wall,
        f"medians of {len(found.ours.took)} turns of {found.script.steps} steps each, on one "
        f"thread; metrics every 10 steps and checkpoints at `auto` are reported and stored, "
        f"{sum(found.ours.saved)} in these turns, for {found.wall.checkpoints:.1%} of the time",
    )
    yield _rate(
        f"the same by processor seconds, {name}",
        found,
        found.processor,
        "of all threads; others on the machine move it less",
    )


def _rate(what: str, found: Compared, rate: Rate, note: str) -> Result:
    certain = abs(rate.ratio - RATIO) > rate.error
    return Result(
        what,
        f"{1 / found.step(found.theirs) * rate.ratio:,.1f} steps/s",
        f"the script alone: {1 / found.step(found.theirs):,.1f} steps/s",
        rate.ratio,
        f"≥ {RATIO}×",
        rate.ratio >= RATIO if certain else None,
        note=f"{note}; known to ± {rate.error:.1%}, no verdict where the target lies within that",
    )


def _saves(found: Compared) -> Iterator[Result]:
    every = found.script.steps
    ours, theirs = found.ours.held_up(every), found.theirs.held_up(every)
    yield Result(
        "a save at a save point of the Trainer's own, BERT-tiny",
        f"holds training up for {ours * 1e3:.0f} ms",
        f"the script alone: {theirs * 1e3:.0f} ms",
        ours / theirs,
        "< 1×",
        ours < theirs,
        note=f"53 MB every {every} steps, medians of {len(found.ours.took)}; burst hashes and "
        "fsyncs it in the background, the Trainer writes it without either, and waits",
    )
    yield Result(
        f"steps with a save every {every} of them, BERT-tiny",
        f"{1 / found.step(found.ours):,.1f} steps/s",
        f"the script alone: {1 / found.step(found.theirs):,.1f} steps/s",
        found.wall.ratio,
        f"≥ {RATIO}×",
        found.wall.ratio >= RATIO if abs(found.wall.ratio - RATIO) > found.wall.error else None,
        note=f"every save is durable within its turn; known to ± {found.wall.error:.1%}",
    )


def _resume(folder: Path) -> Iterator[Result]:
    turns = [first_steps(step, folder / f"step{step}") for step in (EARLY, LATE)]
    for each in turns:
        next(each)  # the first is warm-up
    rounds = [[next(each) for each in turns] for _ in range(ROUNDS)]
    ours, own = ([min(r[late][who] for r in rounds) for late in (0, 1)] for who in (0, 1))
    middle = [statistics.median(r[late][0] for r in rounds) for late in (0, 1)]
    yield Result(
        f"from train() to the first step, resumed at batch {LATE:,}",
        f"{ours[1] * 1e3:.0f} ms",
        f"at batch {EARLY}: {ours[0] * 1e3:.0f} ms",
        ours[1] / ours[0],
        f"≤ {SLOWER}×",
        ours[1] <= SLOWER * ours[0],
        note=f"the best of {ROUNDS}, in turns; medians {middle[1] * 1e3:.0f} and "
        f"{middle[0] * 1e3:.0f} ms. {ROWS:,} shuffled rows that cost nothing, batches of 8, a "
        f"model of one parameter, a log of {LATE // 10:,} rows; the steps before the checkpoint "
        "went through the Trainer's loop and computed nothing",
    )
    yield Result(
        f"the same, beside the Trainer's resume_from_checkpoint at batch {LATE:,}",
        f"{ours[1] * 1e3:.0f} ms",
        f"the script alone: {own[1] * 1e3:.0f} ms",
        ours[1] / own[1],
        "",
        None,
        note=f"from a folder that was saved at the same batch; at batch {EARLY} it takes "
        f"{own[0] * 1e3:.0f} ms",
    )
