from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from burst.core.launch import EXIT_FENCED, EXIT_INVALID_HP, Stop
from burst.core.model import Allocation, ExitKind, Trial
from burst.core.store import update
from tests.harness.launching import TRIAL, TRIAL_CODE, Ended, Site

DEADLINE_S = 90.0


def _run(tmp_path: Path, code: str, *, ranks: int = 1, **kwargs: Any) -> Ended:
    return Site(tmp_path, code, **kwargs).run(ranks)


def _before_the_loss(statement: str) -> str:
    return TRIAL_CODE.replace("loss = self.model", f"{statement}; loss = self.model", 1)


def _slowly(seconds: float) -> str:
    return _before_the_loss(f"import time; time.sleep({seconds})")


def _until(found: Any) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not found():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def test_a_trial_trains_and_reports_to_the_store(tmp_path: Path) -> None:
    ended = _run(tmp_path, TRIAL_CODE)
    assert (ended.status, ended.failure) == (0, None)
    assert ended.outcome is not None
    assert ended.outcome.kind is ExitKind.COMPLETED
    assert ended.outcome.durable
    assert [batches for batches, _ in ended.rows["training"]] == [2, 4, 6, 8]
    assert [batches for batches, _ in ended.rows["validation"]] == [4, 8]
    trial = ended.trial
    assert (trial.done.batches, trial.target_batches, trial.validations) == (8, 8, 2)
    assert trial.done.epochs == 2.0
    assert trial.checkpoint
    assert trial.best is not None


@pytest.mark.slow
def test_two_ranks_drained_and_killed_end_as_if_they_never_were(tmp_path: Path) -> None:
    slow = _slowly(0.1)
    length = {
        "searcher": {"name": "single", "max_length": "12ba"},
        "checkpoints": {"every": "3ba"},
        "optimizations": {"aggregation_frequency": 2},
        "report_every": "5ba",
    }
    whole = _run(_made(tmp_path / "whole"), TRIAL_CODE, ranks=2, **length)
    assert whole.status == 0
    site = Site(_made(tmp_path / "cut"), slow, **length)
    spec, process = site.start(2)
    _until(lambda: site.store.get(Trial, TRIAL).checkpoint)
    site.flag(spec).set(Stop.DRAIN)
    drained = site.finish(spec, process)
    assert drained.outcome is not None
    assert drained.outcome.kind is ExitKind.DRAINED
    first = site.store.get(Trial, TRIAL).checkpoint
    spec, process = site.start(2)
    _until(lambda: site.store.get(Trial, TRIAL).checkpoint != first)
    process.kill()  # the ranks die with their launcher
    process.wait()
    cut = site.run(2)
    assert cut.outcome is not None
    assert cut.outcome.kind is ExitKind.COMPLETED
    assert cut.rows == whole.rows
    restored = site.store.get(Allocation, "alloc-1m3k9zq4w73")
    assert restored.restored_batches > 0


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.slow
def test_the_first_failing_rank_ends_the_gang_at_once(tmp_path: Path) -> None:
    code = TRIAL_CODE.replace(
        "loss = self.model",
        "\n        if batch_idx == 2 and self.context.distributed.rank == 1:\n"
        "            raise ZeroDivisionError('the user is to see this')\n"
        "        if batch_idx == 2:\n"
        "            import time; time.sleep(600)\n"
        "        loss = self.model",
        1,
    )
    ended = _run(tmp_path, code, ranks=2)
    assert ended.status == 1
    assert ended.seconds < 30
    assert ended.failure is not None
    assert (ended.failure.kind, ended.failure.rank) == ("ZeroDivisionError", 1)
    assert "the user is to see this" in ended.failure.message


def test_a_user_error_shows_the_users_own_frames_first(tmp_path: Path) -> None:
    code = _before_the_loss("raise KeyError('pixels')")
    ended = _run(tmp_path, code)
    assert ended.status == 1
    assert ended.failure is not None
    lines = ended.failure.traceback.splitlines()
    assert lines[0].startswith("Traceback")
    assert 'train.py", line' in lines[1]
    assert "burst/harness" not in ended.failure.traceback
    assert "KeyError: 'pixels'" in ended.logs[0]


def test_refused_hyperparameters_have_their_own_status(tmp_path: Path) -> None:
    code = TRIAL_CODE.replace("self.context = context", "raise InvalidHP('lr is too large')", 1)
    ended = _run(tmp_path, code)
    assert ended.status == EXIT_INVALID_HP
    assert ended.outcome is not None
    assert ended.outcome.kind is ExitKind.INVALID_HP


def test_a_newer_allocation_fences_the_old_one(tmp_path: Path) -> None:
    code = _slowly(0.2)
    site = Site(tmp_path, code, searcher={"name": "single", "max_length": "5000ba"})
    spec, process = site.start()
    _until(lambda: site.store.get(Trial, TRIAL).done.batches > 0)
    update(site.store, Trial, TRIAL, lambda t: t.model_copy(update={"token": 99}))
    ended = site.finish(spec, process)
    assert ended.status == EXIT_FENCED


@pytest.mark.slow
def test_sigterm_drains(tmp_path: Path) -> None:
    code = _slowly(0.05)
    site = Site(tmp_path, code, searcher={"name": "single", "max_length": "5000ba"})
    spec, process = site.start()
    _until(lambda: site.store.get(Trial, TRIAL).done.batches > 0)
    process.send_signal(signal.SIGTERM)
    ended = site.finish(spec, process)
    assert ended.status == 0
    assert ended.outcome is not None
    assert (ended.outcome.kind, ended.outcome.durable) == (ExitKind.DRAINED, True)


def test_a_wrong_entrypoint_names_the_nearest(tmp_path: Path) -> None:
    ended = _run(tmp_path, TRIAL_CODE, entrypoint="trian:Tiny")
    assert ended.status == 1
    assert ended.failure is not None
    assert "did you mean train?" in ended.failure.message
    assert "did you mean train?" in ended.logs[0]


def test_a_command_gets_its_hyperparameters_in_words(tmp_path: Path) -> None:
    code = """
        import os, sys, json
        print(sys.argv[1:], json.loads(os.environ["BURST_HPARAMS"])["net"], os.environ["RANK"])
    """
    words = ["python", "train.py", "--lr", "${hp.lr}", "--width=${hp.net.width}"]
    ended = _run(tmp_path, code, entrypoint=words)
    assert ended.status == 0
    assert "['--lr', '0.5', '--width=3'] {'width': 3} 0" in ended.logs[0]


def test_an_unknown_hyperparameter_in_a_command_is_named(tmp_path: Path) -> None:
    ended = _run(tmp_path, "", entrypoint=["python", "train.py", "${hp.net.widht}"])
    assert ended.status == 3
    assert ended.failure is not None
    assert "did you mean net.width?" in ended.failure.message


def test_a_plain_script_is_drained_and_goes_on_where_it_was(tmp_path: Path) -> None:
    code = """
        import time
        import burst.harness
        with burst.harness.init() as context:
            saved = context.checkpoint.restore()
            batch, total = (saved.batches, saved.state["total"]) if saved else (0, 0)
            while batch < context.max_batches(default=1):
                batch += 1
                total += batch
                context.train.report_training_metrics(batch, {"total": total})
                if saved is None:
                    time.sleep(0.02)
                if context.should_stop():
                    context.checkpoint.save({"total": total}, batches=batch)
                    break
            else:
                context.train.report_validation_metrics(batch, {"validation_loss": total})
    """
    site = Site(tmp_path, code, entrypoint="python train.py",
                searcher={"name": "single", "max_length": "400ba"})  # fmt: skip
    spec, process = site.start()
    _until(lambda: site.store.get(Trial, TRIAL).done.batches > 0)
    site.flag(spec).set(Stop.DRAIN)
    drained = site.finish(spec, process)
    assert drained.outcome is not None
    assert (drained.outcome.kind, drained.outcome.durable) == (ExitKind.DRAINED, True)
    ended = site.run()
    assert ended.outcome is not None
    assert ended.outcome.kind is ExitKind.COMPLETED
    assert ended.rows["validation"] == [(400, {"validation_loss": 400 * 401 / 2})]
    assert [batches for batches, _ in ended.rows["training"]] == list(range(1, 401))
