from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from burst.cli import shapes
from burst.cli.planning import Plan
from burst.cli.submitting import Prepared, prepare, submit
from burst.core.model import Experiment
from tests.cli.conftest import Burst
from tests.cli.test_looking import check


@pytest.fixture
def folder(burst: Burst, tmp_path: Path) -> Path:
    """What `burst init` writes."""
    made = tmp_path / "new"
    burst("init", str(made))
    return made


def ready(
    burst: Burst, folder: Path, overrides: Sequence[str] = (), pools: Sequence[str] = ()
) -> Prepared:
    return prepare(burst.session, folder / "exp.yaml", None, overrides, pools)


def plan(burst: Burst, folder: Path, *overrides: str) -> Plan:
    return ready(burst, folder, overrides).plan


def test_a_dry_run_prints_the_plan_and_writes_nothing(burst: Burst, folder: Path) -> None:
    shown = burst("run", str(folder / "exp.yaml"), "--dry-run").stdout.splitlines()
    assert shown[0] == "spirals"
    assert "each         1 slot, 20ep long" in shown
    assert "on           local" in shown
    assert burst.store.children(Experiment, "") == []
    assert list(burst.session.workspace.blobs.list("")) == []


def test_the_plan_as_json_has_its_documented_shape(burst: Burst, folder: Path) -> None:
    shown = burst("run", str(folder / "exp.yaml"), "--dry-run", "--json").stdout
    check(json.loads(shown), shapes.PlanJson)


def test_the_plan_counts_the_trials_of_a_grid(burst: Burst, folder: Path) -> None:
    grid = (
        "searcher.name=grid",
        "searcher.max_concurrent_trials=2",
        "hyperparameters.lr={type: log, base: 10, minval: -3, maxval: -1, count: 3}",
        "hyperparameters.hidden={type: categorical, vals: [32, 64]}",
    )
    planned = plan(burst, folder, *grid)
    assert (planned.trials, planned.at_once) == (6, 2)


def test_the_plan_counts_the_trials_of_a_random_search(burst: Burst, folder: Path) -> None:
    random = ("searcher.name=random", "searcher.max_trials=7", "resources.max_slots=3")
    planned = plan(burst, folder, *random)
    assert (planned.trials, planned.at_once) == (7, 3)


def test_a_pool_named_on_the_command_line_wins(burst: Burst, folder: Path) -> None:
    prepared = ready(burst, folder, ["resources.pools=[other]"], ["local"])
    assert prepared.loaded.config.resources.pools == ("local",)


def test_a_wrong_file_is_status_3_with_its_place(burst: Burst, folder: Path) -> None:
    path = folder / "exp.yaml"
    path.write_text(path.read_text().replace("max_length", "max_lenght"))
    result = burst("run", str(path), status=3)
    assert "exp.yaml:" in result.stderr
    assert "did you mean `max_length`" in result.stderr
    assert result.stdout == ""


def test_a_file_that_is_not_there_is_status_3(burst: Burst) -> None:
    assert "there is no file nowhere.yaml" in burst("run", "nowhere.yaml", status=3).stderr


def test_what_can_never_run_is_refused_before_anything_is_written(
    burst: Burst, folder: Path
) -> None:
    many = ["--set", "resources.slots_per_trial=4000"]
    result = burst("run", str(folder / "exp.yaml"), *many, status=5)
    assert "can never run" in result.stderr
    assert burst.store.children(Experiment, "") == []


def test_what_is_not_acted_on_yet_is_said_once_on_stderr(burst: Burst, folder: Path) -> None:
    result = burst("run", str(folder / "exp.yaml"), "--dry-run", "--set", "budget.usd=5")
    assert result.stderr.count("accepted, not acted on yet: budget.usd") == 1


def test_the_same_file_and_code_is_the_same_experiment_while_it_is_live(
    burst: Burst, folder: Path
) -> None:
    first = submit(burst.session, ready(burst, folder))
    again = submit(burst.session, ready(burst, folder))
    assert (first.attached, again.attached) == (False, True)
    assert again.experiment.id == first.experiment.id
    other = submit(burst.session, ready(burst, folder, ["hyperparameters.lr=0.5"]))
    (folder / "train.py").write_text("class SpiralsTrial:\n    changed = True\n")
    changed = submit(burst.session, ready(burst, folder))
    asked = submit(burst.session, ready(burst, folder), new=True)
    ids = {each.experiment.id for each in (first, other, changed, asked)}
    assert len(ids) == 4


def test_a_seed_that_nobody_chose_does_not_make_another_experiment(
    burst: Burst, folder: Path
) -> None:
    path = folder / "exp.yaml"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if "experiment_seed" not in line))
    first = submit(burst.session, ready(burst, folder))
    again = submit(burst.session, ready(burst, folder))
    assert (again.attached, again.experiment.id) == (True, first.experiment.id)
    chosen = ready(burst, folder, ["reproducibility.experiment_seed=7"])
    assert not submit(burst.session, chosen).attached


@pytest.mark.parametrize("flag", ["--partial", "--everything", "--weights-only"])
def test_what_to_take_of_a_checkpoint_needs_one_to_start_from(
    burst: Burst, folder: Path, flag: str
) -> None:
    said = burst("run", str(folder / "exp.yaml"), flag, "--dry-run", status=2).stderr
    assert f"{flag} says what to take" in said
    assert "--from" in said
    named = ["--set", "warm_start.checkpoint=nothing"]
    said = burst("run", str(folder / "exp.yaml"), flag, *named, "--dry-run", status=4).stderr
    assert "no model is called 'nothing'" in said


def test_everything_and_the_weights_only_exclude_each_other(burst: Burst, folder: Path) -> None:
    both = ["--everything", "--weights-only", "--from", "nothing"]
    said = burst("run", str(folder / "exp.yaml"), *both, status=2).stderr
    assert "exclude each other" in said
