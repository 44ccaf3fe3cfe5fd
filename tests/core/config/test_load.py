"""Experiment files: every mistake at once, each with its place and what was meant."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from burst.core.config import (
    ExperimentFileError,
    LoadedExperiment,
    Problem,
    load_experiment,
    parse_experiment,
)
from burst.core.errors import ConfigError, ExitCode

OK = "entrypoint: train:T\nsearcher: {name: single, max_length: 5ep}\n"
COMMAND = "entrypoint: [python, train.py]\n"


def problems_of(text: str, *overrides: str) -> tuple[Problem, ...]:
    with pytest.raises(ExperimentFileError) as caught:
        parse_experiment(text, "exp.yaml", overrides)
    return caught.value.problems


def only(text: str, *overrides: str) -> Problem:
    found = problems_of(text, *overrides)
    assert len(found) == 1, [str(problem) for problem in found]
    return found[0]


def load(text: str, *overrides: str) -> LoadedExperiment:
    return parse_experiment(text, "folder/exp.yaml", overrides)


def test_all_mistakes_come_at_once_in_the_order_of_the_file() -> None:
    text = """\
name: digits
entrypoint: train:DigitsTrial
hyperparameters: {lr: {type: lag, base: 10, minval: -4, maxval: -1}}
searcher: {name: random, max_trails: 16, max_length: 5x}
resources: {slots_per_trial: two, priority: 120}
reproducibility: {mode: of}
"""
    found = problems_of(text)
    assert [(p.line, p.column, p.path, p.value, p.nearest) for p in found] == [
        (3, 30, "hyperparameters.lr.type", "lag", "log"),
        (4, 26, "searcher.max_trails", "", "max_trials"),
        (4, 54, "searcher.max_length", "5x", ""),
        (5, 30, "resources.slots_per_trial", "two", ""),
        (5, 45, "resources.priority", "120", "99"),
        (6, 25, "reproducibility.mode", "of", "off"),
    ]


def test_the_error_shows_the_line_with_a_caret_and_the_advice() -> None:
    with pytest.raises(ExperimentFileError) as caught:
        load(OK + "resources:\n  priorityy: 3\n")
    assert str(caught.value) == (
        "folder/exp.yaml has one mistake\n"
        "\n"
        "folder/exp.yaml:4:3: `resources.priorityy` is not a field of `resources`\n"
        "  4 |   priorityy: 3\n"
        "    |   ^^^^^^^^^\n"
        "    = did you mean `priority`?"
    )
    assert caught.value.exit_code == ExitCode.CONFIG
    assert pickle.loads(pickle.dumps(caught.value)).problems == caught.value.problems


def test_name_seed_and_search_may_be_left_out() -> None:
    first, second = load(COMMAND).config, load(COMMAND).config
    assert first.name == "exp"
    assert first.searcher.name == "single"
    assert first.reproducibility.experiment_seed != second.reproducibility.experiment_seed


def test_empty_fields_are_as_if_they_were_not_there() -> None:
    config = load(COMMAND + "labels:\nresources:\nvalidate:\n  every:\n").config
    assert config.labels == ()
    assert config.resources.priority == 42
    assert config.validate_.every is None


@pytest.mark.parametrize(
    ("line", "path", "words"),
    [
        ("name: [a]", "name", "is text, not a list"),
        ("name: 3", "name", 'put it in quotes: "3"'),
        ("name: ' '", "name", "one line of text"),
        ('name: "a\\nb"', "name", "one line of text"),
        (f"name: {'x' * 201}", "name", "longer than 200"),
        ("labels: a", "labels", "write `[a]`"),
        ("labels: {a: b}", "labels", "is a list, not a mapping"),
        ("workspace: w", "workspace", "needs a `project`"),
        ("project: p", "project", "needs a `workspace`"),
        ("data: 3", "data", "is a mapping"),
        ("data: {x: .inf}", "data.x", "not a finite number"),
        ("max_restarts: -1", "max_restarts", "did you mean `0`?"),
        ("max_restarts: yes", "max_restarts", "is a whole number, not `yes`"),
        ("max_restarts: true", "max_restarts", "is a whole number, not `true`"),
        ("max_restarts: '3'", "max_restarts", "write it without quotes: 3"),
        ("report_every: 0ba", "report_every", "more than zero"),
        ("report_every: 5", "report_every", "`5ba`"),
        ("drain_grace: 5 parsecs", "drain_grace", "is not a duration"),
        ("validate: {every: 0ep}", "validate.every", "`null` means never"),
        ("validate: {at_start: yes}", "validate.at_start", "did you mean `true`?"),
        ("checkpoints: {every: atuo}", "checkpoints.every", "is not a length"),
        ("checkpoints: {policy: bset}", "checkpoints.policy", "did you mean `best`?"),
        ("checkpoints: {keep: 3}", "checkpoints.keep", "is a mapping of experiment_best"),
        ("checkpoints: {storage: {type: s3}}", "checkpoints.storage", "needs a `bucket`"),
        ("checkpoints: {storage: {type: gcs}}", "checkpoints.storage.type", "`s3`"),
        ("checkpoints: {storage: {type: s3, bucket: a/b}}", "checkpoints.storage.bucket",
         "no name of a bucket"),
        ("checkpoints: {storage: {type: s3, bucket: b, endpoint_url: x y}}",
         "checkpoints.storage.endpoint_url", "http://"),
        ("checkpoints: {storage: {type: directory, path: /}}", "checkpoints.storage.path",
         "root of the file system"),
        ("checkpoints: {storage: {bucket: b}}", "checkpoints.storage",
         "`checkpoints.storage.type` is missing"),
        ("checkpoints: {storage: {type: directory, path: a}}", "checkpoints.storage.path",
         "absolute"),
        ("checkpoints: {storage: {type: s3, bucket: b, prefix: a/../b}}",
         "checkpoints.storage.prefix", "`..`"),
        ("checkpoints: {storage: {type: local}}", "checkpoints.storage",
         "no tier that outlives the node"),
        ("checkpoints: {storage: [{type: local}, {type: local, path: /nvme}]}",
         "checkpoints.storage", "no tier that outlives the node"),
        ("checkpoints: {storage: []}", "checkpoints.storage", "no tier that outlives the node"),
        ("checkpoints: {storage: [{type: local, keep: 0}, {type: s3, bucket: b}]}",
         "checkpoints.storage.0.keep", "did you mean `1`?"),
        ("checkpoints: {storage: [{type: local}, {type: s3, bucket: b, every: 5}]}",
         "checkpoints.storage.1.every", "`5ba`"),
        ("checkpoints: {storage: [{type: local}, {type: s3, bucket: b, every: 0ep}]}",
         "checkpoints.storage.1.every", "more than zero"),
        ("checkpoints: {storage: [{type: local, every: 1ep}, {type: s3, bucket: b}]}",
         "checkpoints.storage.0.every", "write `checkpoints.every`"),
        ("checkpoints: {storage: {type: s3, bucket: b, every: 1ep}}",
         "checkpoints.storage.every", "every one of them"),
        ("checkpoints: {storage: [{type: local}, {type: s3}]}", "checkpoints.storage.1",
         "needs a `bucket`"),
        ("checkpoints: {storage: [{type: shared_fs, path: /a/}, {type: directory, path: /a}]}",
         "checkpoints.storage.1", "is the same place as `checkpoints.storage.0`"),
        ("checkpoints: {storage: [{type: s3, bucket: b}, {type: local}]}",
         "checkpoints.storage.1", "comes after `checkpoints.storage.0`"),
        ("checkpoints: {storage: [{type: local}, 3]}", "checkpoints.storage.1", "is a mapping"),
        ("checkpoints: {storage: [{type: local, kep: 2}, {type: s3, bucket: b}]}",
         "checkpoints.storage.0.kep", "did you mean `keep`?"),
        ("resources: {slots_per_trial: -1}", "resources.slots_per_trial", "at least 0"),
        ("resources: {slots_per_trial: 4, max_slots: 2}", "resources.max_slots", "never starts"),
        ("resources: {pools: [a, a]}", "resources.pools.1", "named twice"),
        ("resources: {pools: [A b]}", "resources.pools.0", "no name of a pool"),
        ("resources: {shm_size: 4 elephants}", "resources.shm_size", "is not a size"),
        ("resources: {weight: 0}", "resources.weight", "more than 0"),
        ("reproducibility: {experiment_seed: 2147483648}", "reproducibility.experiment_seed",
         "less than"),
        ("budget: {usd: 0}", "budget.usd", "more than 0"),
        ("environment: {variables: {'A B': x}}", "environment.variables.A B", "no name of a var"),
        ("environment: {variables: {A: }}", "environment.variables.A", "is empty"),
        ("environment: {secrets: {A: x}}", "environment.secrets.A", "`ssm:`"),
        ("environment: {variables: {A: x}, secrets: {A: 'env:A'}}", "environment.secrets.A",
         "both a variable and a secret"),
        ("bind_mounts: [{host_path: a, container_path: /b}]", "bind_mounts.0.host_path",
         "absolute"),
        ("bind_mounts: [{host_path: /a, container_path: .}]", "bind_mounts.0.container_path",
         "working folder"),
        ("bind_mounts: [{container_path: /b}]", "bind_mounts.0", "host_path` is missing"),
        ("log_policies: [{pattern: '(a'}]", "log_policies.0.pattern", "no regular expression"),
        ("profiling: {begin_on_batch: 5, end_after_batch: 3}", "profiling.end_after_batch",
         "is before"),
        ("retention: {log_days: 40000}", "retention.log_days", "between -1 and 32767"),
        ("max_trials: 3", "max_trials", "it is written `searcher.max_trials`"),
        ("namee: x", "namee", "did you mean `name`?"),
        ("min_validation_perod: 3", "min_validation_perod", "did you mean `validate.every`?"),
        ("slurm: {gpu_typ: x}", "slurm.gpu_typ", "did you mean `gpu_type`?"),
    ],
)  # fmt: skip
def test_a_mistake_has_its_path_and_its_remedy(line: str, path: str, words: str) -> None:
    problem = only(OK + line + "\n")
    assert (problem.line, problem.path) == (3, path)
    assert words in str(problem)


@pytest.mark.parametrize(
    ("searcher", "words"),
    [
        ("single", "write `{name: single}`"),
        ("{metric: x}", "it is one of `single`, `grid`"),
        ("{name: adaptve_asha, max_length: 5ep}", "did you mean `adaptive_asha`?"),
        ("{name: [x]}", "cannot be"),
        ("{name: single}", "the trial class `train:T` has to know how long to train"),
        ("{name: single, max_length: 0ba}", "more than zero"),
        ("{name: single, max_length: 5ep, max_trials: 3}", "of the searcher `random`, `asha` or"),
        ("{name: random, max_length: 5ep}", "`searcher.max_trials` is missing"),
        ("{name: random, max_trials: 0, max_length: 5ep}", "at least 1"),
        ("{name: grid, max_length: 5ep, max_concurrent_trials: -1}", "at least 0"),
        ("{name: asha, max_trials: 4, num_rungs: 2}", "the searcher `asha` has to know"),
        ("{name: adaptive_asha, max_trials: 4, time_metric: batches}", "belong together"),
        ("{name: adaptive_asha, max_trials: 4, time_metric: steps, max_time: 9, max_length: 9ba}",
         "exclude each other"),
        ("{name: adaptive_asha, max_trials: 4, max_length: 9ba, divisor: 1}", "more than 1"),
        ("{name: adaptive_asha, max_trials: 4, max_length: 9ba, mode: standrad}", "`standard`"),
        ("{name: single, max_length: 5ep, source_trial_id: 3}", "an id such as exp-"),
        ("{name: single, max_length: 5ep, source_trial_id: exp-1m3k9zq4w7c}", "exp-….t0000"),
        ("{name: single, max_length: 5ep, source_checkpoint_uuid: ../x}", "ckpt-…"),
        ("{name: single, max_length: 5ep, source_trial_id: exp-1m3k9zq4w7c.t0003, "
         "source_checkpoint_uuid: ckpt-1m3k9zq4w7c}", "exclude each other"),
    ],
)  # fmt: skip
def test_a_search_that_means_nothing_is_refused(searcher: str, words: str) -> None:
    assert words in str(only(f"entrypoint: train:T\nsearcher: {searcher}\n"))


@pytest.mark.parametrize("length", ["5", "[1]", "x", "{steps: 3}", "true"])
def test_a_length_below_an_unknown_searcher_hides_no_other_mistake(length: str) -> None:
    text = f"entrypoint: train:T\nsearcher: {{name: randon, max_length: {length}}}\n"
    assert "did you mean `random`?" in str(only(text))


def test_a_warm_start_names_a_trial_or_a_checkpoint() -> None:
    trial, checkpoint = "exp-1m3k9zq4w7c.t0003", "ckpt-1m3k9zq4w7c"
    for source in (f"source_trial_id: {trial}", f"source_checkpoint_uuid: {checkpoint}"):
        load(f"entrypoint: train:T\nsearcher: {{name: single, max_length: 5ep, {source}}}\n")


@pytest.mark.parametrize(
    ("space", "name", "words"),
    [
        ("{a: {type: int, minval: 3, maxval: 3}}", "random", "3 is not less than maxval 3"),
        ("{a: {type: int, minval: 3}}", "random", "`hyperparameters.a.maxval` is missing"),
        ("{a: {type: int, minval: 1, maxval: 2.5}}", "random", "is a whole number, not `2.5`"),
        ("{a: {type: int, minval: 1, maxval: 2, cuont: 3}}", "random", "did you mean `count`?"),
        ("{a: {type: log, minval: 1, maxval: 400}}", "random", "beyond every number"),
        ("{a: {type: log, base: 0, minval: 1, maxval: 4}}", "random", "more than 0"),
        ("{a: {type: categorical, vals: []}}", "random", "needs at least one value"),
        ("{a: {type: gauss, mean: 0}}", "random", "type: const, val:"),
        ("{a: {b: {type: categoricall, vals: [1]}}}", "random", "did you mean `categorical`?"),
        ("{a: {type: int, minval: 1, maxval: 9}}", "grid", "such as `count: 5`"),
        ("{a: {b: {type: double, minval: 0, maxval: 1}}}", "single", "`a.b` has a choice"),
        ("{a: {type: int, minval: 0, maxval: 9999, count: 0}}", "grid", "at least 1"),
        ("{a: {type: double, minval: 0, maxval: 9, count: 1000}, "
         "b: {type: double, minval: 0, maxval: 9, count: 1000}}", "grid", "1,000,000 trials"),
        ("{a: .nan}", "single", "not a finite number"),
        ("3", "single", "is a mapping, not a number"),
    ],
)  # fmt: skip
def test_a_space_that_means_nothing_is_refused(space: str, name: str, words: str) -> None:
    extra = ", max_trials: 2" if name == "random" else ""
    text = f"hyperparameters: {space}\nsearcher: {{name: {name}, max_length: 5ep{extra}}}\n"
    assert words in str(only(f"entrypoint: train:T\n{text}"))


@pytest.mark.parametrize(
    ("entrypoint", "words"),
    [
        ("''", "`entrypoint` is empty"),
        ("[]", "`entrypoint` is empty"),
        ("[python, 3]", 'put it in quotes: "3"'),
        ("{a: b}", "is text or a list, not a mapping"),
        ("python train.py --lr ${hp.lrr}", "did you mean `lr`?"),
        ("[python, '${hp.model.with}']", "did you mean `model.width`?"),
    ],
)
def test_an_entrypoint_that_cannot_run_is_refused(entrypoint: str, words: str) -> None:
    text = f"entrypoint: {entrypoint}\nhyperparameters: {{lr: 1, model: {{width: 2}}}}\n"
    assert words in str(only(text))


def test_a_missing_entrypoint_is_the_file_s_mistake() -> None:
    assert "`entrypoint` is missing" in str(only("name: x\n"))


def test_a_command_may_name_a_level_or_the_inside_of_a_value() -> None:
    line = "run ${hp.m} ${hp. m.lr } ${hp.m.lr} ${hp.c.x}"
    space = "{m: {lr: 1}, c: {type: const, val: {x: 1}}}"
    assert load(f'entrypoint: "{line}"\nhyperparameters: {space}\n').config.entrypoint == line


def test_commands_and_lengths_in_every_form_are_taken() -> None:
    text = "entrypoint: [python, train.py, --lr, '${hp.m.lr}']\nhyperparameters: {m: {lr: 1e-3}}\n"
    config = load(text + "searcher: {name: single, max_length: {batches: 30}}\n").config
    assert config.entrypoint == ("python", "train.py", "--lr", "${hp.m.lr}")
    assert config.hyperparameters == {"m": {"lr": 0.001}}
    assert str(config.searcher.max_length) == "30ba"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "this file is empty"),
        ("# nothing\n", "this file is empty"),
        ("- a\n", "not a mapping"),
        ("hello\n", "not a mapping"),
    ],
)
def test_a_file_that_is_no_mapping_says_so(text: str, words: str) -> None:
    assert words in str(only(text))


def test_files_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no file"):
        load_experiment(tmp_path / "nope.yaml")
    (tmp_path / "exp.yaml").write_text(OK)
    with pytest.raises(ConfigError, match="is a folder") as caught:
        load_experiment(tmp_path)
    assert str(tmp_path / "exp.yaml") in caught.value.mend
    binary = tmp_path / "model.pt"
    binary.write_bytes(b"PK\x03\x04\n\xff\xfe")
    with pytest.raises(ConfigError, match="not a text file in UTF-8") as caught:
        load_experiment(binary)
    assert "line 2" in caught.value.why
    wide = tmp_path / "wide.yaml"
    wide.write_text(OK, encoding="utf-16")
    with pytest.raises(ConfigError) as caught:
        load_experiment(wide)
    assert "UTF-16" in caught.value.why


def test_a_byte_order_mark_and_windows_lines_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "exp.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + OK.replace("\n", "\r\n").encode() + b"namee: x\r\n")
    with pytest.raises(ExperimentFileError) as caught:
        load_experiment(path)
    assert [(p.line, p.column) for p in caught.value.problems] == [(3, 1)]


def test_what_is_not_acted_on_is_named_once_and_only_where_asked_for() -> None:
    assert load(OK).unacted == ()
    assert load(OK + "resources: {weight: 1}\nbudget: {usd: null}\n").unacted == ()
    asked = load(OK + "environment: {secrets: {A: 'env:A', B: 'ssm:/b'}, image: x}\n").unacted
    assert asked == ("environment.secrets",)
    mounts = "bind_mounts: [{host_path: /a, container_path: /b}]\n"
    assert load(OK + mounts).unacted == ("bind_mounts",)
    assert load(OK + mounts + "environment: {image: x}\n").unacted == ()
    halving = "entrypoint: [a]\nsearcher: {name: adaptive_asha, max_trials: 2, max_length: 5ep}\n"
    assert load(halving).unacted == ()


def test_every_line_of_the_table_names_a_field() -> None:
    from burst.core.config.unacted import UNACTED

    config = load(COMMAND).config
    for path in UNACTED:
        section: object = config
        for name in path.split("."):
            section = getattr(section, name)


@pytest.mark.parametrize("value", ["5", "true", "1.5", "[a]", "{a: 1}"])
def test_a_source_that_is_no_id_is_told_even_where_the_searcher_has_no_name(value: str) -> None:
    text = f"entrypoint: train:T\nsearcher: {{source_checkpoint_uuid: {value}}}\n"
    with pytest.raises(ExperimentFileError):
        parse_experiment(text, "exp.yaml")
