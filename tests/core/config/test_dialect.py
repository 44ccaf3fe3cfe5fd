"""Determined's files, in both of its dialects, become the same experiment."""

from __future__ import annotations

from pathlib import Path

import pytest

from burst.core.config import (
    ExperimentConfig,
    ExperimentFileError,
    LoadedExperiment,
    load_experiment,
    parse_experiment,
)
from burst.core.config.experiment import AdaptiveAshaSearcher, AshaSearcher
from burst.core.length import Length

FILES = Path(__file__).parent / "files"


def load(text: str) -> LoadedExperiment:
    return parse_experiment("entrypoint: [a]\n" + text, "exp.yaml")


def config(text: str) -> ExperimentConfig:
    return load(text).config


def mistake(text: str) -> str:
    with pytest.raises(ExperimentFileError) as caught:
        load(text)
    assert len(caught.value.problems) == 1, str(caught.value)
    return str(caught.value.problems[0])


def test_a_file_of_the_last_release_is_read_whole() -> None:
    loaded = load_experiment(FILES / "determined_current.yaml")
    found = loaded.config
    assert found.entrypoint == "python3 train.py --epochs 20"
    assert isinstance(found.searcher, AdaptiveAshaSearcher)
    assert found.searcher.max_length == Length.model_validate("20ep")
    assert (found.searcher.time_metric, found.searcher.max_time) == (None, None)
    assert found.resources.pools == ("gpu-pool",)
    assert found.resources.shm_size == 3 << 29
    assert found.checkpoints.policy == "all"
    assert found.checkpoints.keep.experiment_best == 2
    (storage,) = found.checkpoints.tiers
    assert storage.bucket == "lab-checkpoints"
    assert found.validate_.at_start
    assert (found.drain_grace, found.retention.log_days) == (600, 90)
    assert found.environment.image is not None
    assert found.environment.image.cuda == "example/pytorch:cuda"
    assert found.environment.variables == {"NCCL_DEBUG": "WARN", "MODE": "a=b"}
    assert [policy.name for policy in found.log_policies] == ["bad node"]
    assert found.slurm.sbatch_args == ("--qos=high",)
    assert [w.split(": ")[0].rpartition("/")[2] for w in loaded.warnings] == [
        "determined_current.yaml:12:1",
        "determined_current.yaml:70:5",
    ]


def test_a_file_of_the_years_before_is_read_whole_and_told_the_new_forms() -> None:
    loaded = load_experiment(FILES / "determined_old.yaml")
    found = loaded.config
    assert isinstance(found.searcher, AshaSearcher)
    assert found.searcher.promote
    assert found.searcher.max_length == Length.model_validate("937ba")
    assert found.validate_.every == Length.model_validate("200ba")
    assert found.checkpoints.every == Length.model_validate("1ep")
    assert found.report_every == Length.model_validate("50ba")
    (storage,) = found.checkpoints.tiers
    assert storage.path == "/mnt/shared/determined/checkpoints"
    assert found.optimizations.mixed_precision == "fp16"
    assert found.environment.variables == {"THREADS": "4", "TF32": "1"}
    assert found.resources.devices == ("/dev/infiniband:/dev/infiniband:mrw",)
    assert found.log_policies[0].action == "cancel_retries"
    said = "\n".join(loaded.warnings)
    for form in (
        "validate: {every: {batches: 200}}",
        "checkpoints: {every: {epochs: 1}}",
        "report_every: 50ba",
        "promote: true",
        "mixed_precision: fp16",
        "`debug` is ignored",
        "`records_per_epoch` is ignored",
        "`optimizations.gradient_compression` is ignored",
    ):
        assert form in said
    assert [int(w.split(":")[1]) for w in loaded.warnings] == sorted(
        int(w.split(":")[1]) for w in loaded.warnings
    )


def test_a_variable_that_looks_like_a_number_is_the_text_that_was_written() -> None:
    variables = "{A: 1, B: 1e-3, C: true, D: 08}"
    written = f"entrypoint: [python, x.py]\nenvironment: {{variables: {variables}}}"
    found = parse_experiment(written, "exp.yaml").config
    assert found.environment.variables == {"A": "1", "B": "1e-3", "C": "true", "D": "08"}


def test_both_dialects_of_one_search_are_one_search() -> None:
    common = "name: adaptive_asha, metric: loss, max_trials: 16"
    new = config(f"searcher: {{{common}, time_metric: batches, max_time: 937}}").searcher
    old = config(f"searcher: {{{common}, max_length: {{batches: 937}}, stop_once: true}}").searcher
    own = config(f"searcher: {{{common}, max_length: 937ba}}").searcher
    twice = f"{common}, max_length: {{batches: 937}}, time_metric: batches, max_time: 937"
    both = config(f"searcher: {{{twice}}}").searcher
    assert new == old == own == both


def test_a_time_metric_of_the_user_s_own_stays_one() -> None:
    found = config(
        "searcher: {name: asha, num_rungs: 2, max_trials: 4, time_metric: t, max_time: 9}"
    )
    assert isinstance(found.searcher, AshaSearcher)
    assert (found.searcher.time_metric, found.searcher.max_time) == ("t", 9)
    assert found.searcher.max_length is None


def test_a_period_of_zero_means_what_it_meant() -> None:
    found = config("min_validation_period: {batches: 0}\nmin_checkpoint_period: {epochs: 0}\n")
    assert found.validate_.every is None
    assert found.checkpoints.every == "auto"


@pytest.mark.parametrize(
    ("entrypoint", "meant"),
    [
        (
            "python3 -m determined.launch.torch_distributed train.py --x 1",
            "python3 train.py --x 1",
        ),
        ("python3 -m determined.launch.torch_distributed -- python3 t.py", "python3 t.py"),
        ("[python3, -m, determined.launch.torch_distributed, --trial, 'm:T']", "m:T"),
        ("[python3, -m, determined.launch.torch_distributed, t.py]", ("python3", "t.py")),
        ("python3 -m mymodule", "python3 -m mymodule"),
    ],
)
def test_determined_s_launcher_is_taken_off(entrypoint: str, meant: object) -> None:
    searcher = "searcher: {name: single, max_length: 1ep}"
    found = parse_experiment(f"entrypoint: {entrypoint}\n{searcher}\n", "exp.yaml").config
    assert found.entrypoint == meant


def test_devices_images_and_storage_have_several_shapes() -> None:
    assert (
        config("environment: {image: x}").environment.image
        == config("environment: {image: {cpu: x, cuda: x, rocm: x}}").environment.image
    )
    old = load("environment: {image: {gpu: x}}")
    assert old.config.environment.image is not None
    assert old.config.environment.image.cuda == "x"
    assert "write `cuda`" in old.warnings[0]
    folder = config("checkpoint_storage: {type: directory, container_path: /c}")
    assert [tier.path for tier in folder.checkpoints.tiers] == ["/c"]
    assert config("checkpoint_storage: {save_trial_best: 3}").checkpoints.storage is None
    assert config("resources: {resource_pool: ''}").resources.pools == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("searcher: {name: adaptive_simple, max_trials: 3}", "did you mean `adaptive_asha`?"),
        ("searcher: {name: asha, num_rungs: 2, max_trials: 4, time_metric: batches, max_time: 9,"
         " max_length: 8ba}", "keep `searcher.max_length`"),
        ("searcher: {name: asha, num_rungs: 2, max_trials: 4, max_length: 8ba, stop_once: x}",
         "true or false"),
        ("checkpoint_policy: all\ncheckpoints: {policy: best}", "keep `checkpoints.policy`"),
        ("checkpoint_storage: {type: s3, bucket: b, access_key: A}", "credentials do not belong"),
        ("environment: {registry_auth: {username: a}}", "credentials do not belong"),
        ("checkpoint_storage: {type: s3, bukcet: b, bucket: b}", "did you mean `bucket`?"),
        ("checkpoint_storage: {type: shared_fs, host_path: /a, storage_path: ../b}", "not inside"),
        ("checkpoint_storage: [x]", "`checkpoint_storage.0` is a mapping"),
        ("checkpoint_storage: x", "is a mapping with a `type`, or a list of such"),
        ("checkpoint_storage: [{type: s3, bucket: b, secret_key: A}]", "credentials do not"),
        ("checkpoint_storage: [{type: local}, {type: shared_fs, host_path: a}]", "absolute"),
        ("checkpoint_storage: {type: s3, bucket: b, save_trial_best: -1}", "at least 0"),
        ("retention_policy: {log_days: 3}", "did you mean `log_retention_days`?"),
        ("environment: {environment_variables: [A]}", "is written NAME=VALUE"),
        ("environment: {environment_variables: A=b}", "is a list of NAME=VALUE"),
        ("environment: {environment_variables: {cpu: [A=1], cuda: [A=2]}}", "has two values"),
        ("environment: {variables: {A: x}, environment_variables: [A=y]}", "has another value"),
        ("optimizations: {mixed_precision: O4}", "cannot be `O4`"),
        ("min_validation_period: 100", "`100ba`"),
        ("scheduling_unit: x", "is not a length"),
    ],
)  # fmt: skip
def test_old_spellings_have_mistakes_at_their_own_place(text: str, words: str) -> None:
    said = mistake(text)
    assert words in said
    assert said.startswith("exp.yaml:2:")


def test_determined_s_storage_may_be_a_list_of_tiers() -> None:
    found = config(
        "checkpoint_storage:\n"
        "  - {type: local, keep: 2}\n"
        "  - {type: shared_fs, host_path: /mnt, storage_path: ck, propagation: rprivate}\n"
        "  - {type: s3, bucket: b, every: 1h}"
    ).checkpoints.tiers
    assert [tier.type for tier in found] == ["local", "shared_fs", "s3"]
    assert [tier.path for tier in found] == ["", "/mnt/ck", ""]
    assert (found[0].keep, found[2].every) == (2, Length.model_validate("1h"))


def test_a_launcher_that_burst_has_not_is_named() -> None:
    with pytest.raises(ExperimentFileError, match=r"determined\.launch\.horovod"):
        parse_experiment("entrypoint: python3 -m determined.launch.horovod x.py\n", "exp.yaml")
