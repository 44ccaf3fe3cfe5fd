"""A search before it begins: `burst search preview`, and the plan that `burst run` prints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from burst.cli import shapes
from tests.cli.conftest import Burst
from tests.cli.test_looking import check


def write(folder: Path, searcher: Mapping[str, Any], **more: Any) -> str:
    path = folder / "search.yaml"
    space = {"lr": {"type": "log", "minval": -4, "maxval": -1}}
    config = {"name": "n", "entrypoint": ["true"], "hyperparameters": space,
              "searcher": {"metric": "eval_loss", **searcher}, **more}  # fmt: skip
    path.write_text(json.dumps(config))
    return str(path)


ADAPTIVE = {"name": "adaptive_asha", "max_trials": 50, "max_length": "20ep"}


def test_a_preview_shows_brackets_rungs_and_where_trials_end(burst: Burst, tmp_path: Path) -> None:
    shown = burst("search", "preview", write(tmp_path, ADAPTIVE)).stdout.splitlines()
    assert [line.rstrip() for line in shown] == [
        "search  adaptive_asha",
        "trials  50, 16 at once, each on 1 slot",
        "rungs   1 → 5 → 20 epochs: 37 trials, 8 at once",
        "        5 → 20 epochs: 13 trials, 8 at once",
        "ends    28 at 1 epoch, 17 at 5 epochs, 5 at 20 epochs",
        "in all  213 epochs, 21% of training every trial to the top",
    ]


def test_a_preview_as_json_has_its_documented_shape(burst: Burst, tmp_path: Path) -> None:
    file = write(tmp_path, {**ADAPTIVE, "max_length": "2h"}, resources={"slots_per_trial": 2})
    shown = burst.json("search", "preview", file)
    check(shown, shapes.SearchJson)
    assert shown["slot_hours"] == pytest.approx(2 * shown["trained"] / 3600)
    assert sum(end["trials"] for end in shown["ends"]) == shown["trials"] == 50


@pytest.mark.parametrize(
    ("searcher", "line"),
    [
        ({"name": "random", "max_trials": 7, "max_length": "3ep"}, "in all  21 epochs"),
        ({"name": "random", "max_trials": 7}, "length  the trial's own code says"),
        ({**ADAPTIVE, "max_length": "1ep"}, "ends    50 at 1 epoch: too few trials, or too short"),
        ({**ADAPTIVE, "max_length": "90m", "max_trials": 4}, "rungs   22m30s → 1h30m: "),
    ],
)
def test_a_preview_of_any_search_says_what_it_comes_to(
    burst: Burst, tmp_path: Path, searcher: Mapping[str, Any], line: str
) -> None:
    shown = burst("search", "preview", write(tmp_path, searcher)).stdout
    assert line in shown


def test_a_dry_run_shows_the_rungs_of_a_search_that_halves(burst: Burst, tmp_path: Path) -> None:
    file = write(tmp_path, ADAPTIVE)
    shown = burst("run", file, "--dry-run").stdout
    assert "trials       up to 50 by adaptive_asha search, 16 at once" in shown
    assert "rungs        1 → 5 → 20 epochs: 37 trials, 8 at once" in shown
    plan = json.loads(burst("run", file, "--dry-run", "--json").stdout)
    check(plan, shapes.PlanJson)
    assert plan["brackets"][1] == {"rungs": [5.0, 20.0], "trials": 13, "at_once": 8}


def test_promotion_is_refused_with_what_to_do(burst: Burst, tmp_path: Path) -> None:
    file = write(tmp_path, {**ADAPTIVE, "promote": True})
    for command in (["search", "preview", file], ["run", file, "--dry-run"]):
        said = burst(*command, status=5).stderr
        assert "`searcher.promote` of 'adaptive_asha' is not acted on yet" in said
        assert "leave `promote` out" in said
