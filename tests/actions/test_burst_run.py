"""The action's own steps, run as GitHub runs them, with a real burst that trains for real."""

from __future__ import annotations

import json
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.actions.conftest import Site
from tests.actions.double import Job, Ran

UNHURRIED = """
entrypoint=unhurried:Unhurried
searcher.max_length=4ep
checkpoints.every=1ep
hyperparameters.channels=4
"""
HERE: dict[str, str] = {"working_directory": "models", "version": "installed"}


def write(site: Site, script: str, **fields: Any) -> None:
    """An experiment that is a plain script, without torch."""
    config = {
        "name": "script",
        "entrypoint": ["python", "script.py"],
        "searcher": {"name": "single", "metric": "loss", "max_length": "10ba"},
        "max_restarts": 0,
        "drain_grace": "2s",  # nothing in a plain script hears that it is to leave
        **fields,
    }
    (site.workspace / "models" / "exp.yaml").write_text(yaml.safe_dump(config))
    (site.workspace / "models" / "script.py").write_text(script)


def run(job: Job, **inputs: Any) -> Ran:
    return job.run(**{**HERE, **inputs})


def state(site: Site) -> str:
    return str(json.loads(site.burst("show", "latest", "--json"))["state"])


@pytest.mark.slow
def test_it_trains_once_and_says_what_came_of_it_however_often_the_job_is_run(site: Site) -> None:
    job = site.job(matrix={"lr": 0.004, "on": ["a", "b"]})
    what = {"set": "searcher.max_length=2ep\n\nhyperparameters.channels=8\r\n", "pool": "local,"}
    first = run(job, **what, budget="5")
    assert not first.failed, first.log
    assert first.outputs["state"] == "completed"
    assert first.outputs["metric"] == "validation_loss"
    assert float(first.outputs["value"]) > 0
    assert first.outputs["trial"] == first.outputs["experiment"] + ".t0000"
    assert first.outputs["checkpoint"].startswith("ckpt-")
    assert first.outputs["checkpoint-url"].endswith("/manifest.json")
    assert first.outputs["usd"] == ""

    log, summary = first.steps["run"].log, first.summary
    assert "● running  1 slot in pool local" in log
    assert "accepted, not acted on yet: budget.usd" in log
    assert "### ✔ completed: `digits`" in summary
    assert "` by `ada`" in summary
    assert "| `t0000` | ✔ completed |" in summary
    assert "```mermaid\nxychart-beta" in summary
    assert "the budget of $5 is not enforced yet" in summary
    config = json.loads(site.burst("show", "latest", "--json"))["config"]
    assert (config["hyperparameters"]["channels"], config["budget"]["usd"]) == (8, 5)
    site.burst("checkpoint", "verify", first.outputs["checkpoint"])

    again = run(site.job(job.matrix, run_attempt="2"), **what, budget="5")
    assert not again.failed
    assert again.outputs == first.outputs
    assert "is completed under this key" in again.steps["run"].log
    assert len(site.experiments()) == 1


@pytest.mark.slow
def test_a_cancelled_workflow_pauses_it_and_the_job_run_again_goes_on_from_there(
    site: Site,
) -> None:
    what = {"set": UNHURRIED}

    def has_saved() -> bool:
        found = site.burst("checkpoint", "list", "--json") if site.home.exists() else ""
        return "ckpt-" in found and state(site) == "active"

    cancelled = run(site.job(), cancel=lambda: _quiet(has_saved), after_cancel=False, **what)
    step = cancelled.steps["run"]
    assert (step.outcome, step.status) == ("cancelled", 130)  # it was not killed
    assert "is paused: it checkpoints and gives back its slots" in step.log
    assert state(site) == "paused"
    before = site.experiments()[0]["id"]

    again = run(site.job(run_attempt="2"), **what)
    assert not again.failed, again.log
    assert (again.outputs["experiment"], again.outputs["state"]) == (before, "completed")
    assert f"resumed {before}" in again.steps["run"].log
    trial = json.loads(site.burst("trial", "show", "latest", "--json"))
    assert (trial["batches"], trial["restarts"]) == (trial["target_batches"], 0)
    assert trial["allocations"][-1]["restored_batches"] > 0
    assert len(site.experiments()) == 1


def _quiet(ask: Any) -> bool:
    try:
        return bool(ask())
    except AssertionError:  # nothing was submitted yet
        return False


@pytest.mark.slow
def test_what_failed_fails_the_job_with_its_traceback_and_is_tried_anew_when_it_is_run_again(
    site: Site,
) -> None:
    write(site, "raise ValueError('100% of the `disk` | is <full> @everyone')")
    first = run(site.job())
    assert first.failed
    assert first.steps["run"].status == 1
    assert first.outputs["state"] == "failed"
    assert "::error title=The experiment failed::ValueError: 100%25 of" in first.log
    assert "ValueError: 100% of the `disk` | is <full> @everyone" in first.summary
    write(site, "print('mended')")
    second = run(site.job(run_attempt="2"))
    assert not second.failed, second.log
    assert second.outputs["state"] == "completed"
    assert second.outputs["experiment"] != first.outputs["experiment"]
    third = run(site.job(run_attempt="3"))
    assert third.outputs["experiment"] == second.outputs["experiment"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wish", "ends"), [("cancel", ("stopping", "cancelled")), ("leave", ("active",))]
)
def test_a_cancelled_workflow_does_what_was_asked_for(
    site: Site, wish: str, ends: tuple[str, ...]
) -> None:
    write(site, "import time\nwhile True: time.sleep(0.1)")

    def runs() -> bool:
        return "running" in site.burst("trial", "list", "latest")

    ran = run(site.job(), cancel=lambda: _quiet(runs), after_cancel=False, on_cancel=wish)
    assert ran.steps["run"].status == 130
    assert state(site) in ends
    if wish == "leave":
        site.burst("kill", "latest", "--wait")


@pytest.mark.slow
def test_after_its_time_it_is_paused_the_job_is_red_and_says_how_to_go_on(site: Site) -> None:
    write(site, "import time\nwhile True: time.sleep(0.1)")
    ran = run(site.job(), timeout="4s")
    assert ran.steps["run"].status == 1
    assert "is not over after 4s: it is paused" in ran.steps["run"].log
    assert ran.outputs["state"] == "paused"
    assert ran.outputs["reason"] == "paused because its time, 4s, was over"
    assert "Run this job again to go on from there." in ran.summary
    site.burst("kill", "latest", "--wait")


def test_without_waiting_it_is_submitted_and_the_job_is_green(site: Site) -> None:
    write(site, "print('done')")
    job = site.job()
    ran = run(job, wait="false")
    assert not ran.failed, ran.log
    assert ran.outputs["experiment"] in ran.steps["run"].log
    assert ran.outputs["state"] in ("active", "stopping", "completed")
    again = run(job, wait="false")
    assert again.outputs["experiment"] == ran.outputs["experiment"]
    site.burst("wait", "latest", "--quiet")


def test_every_leg_of_a_matrix_every_job_and_every_run_has_its_own(site: Site) -> None:
    write(site, "print('done')")
    jobs = [
        site.job(),
        site.job(matrix={"lr": 0.1}),
        site.job(matrix={"lr": 0.2}),
        site.job(job="other"),
        site.job(run_id="82"),
        site.job(repository="acme/other"),
        site.job(),
    ]
    names = ["", "", "", "", "", "", "small"]
    prepared = [_prepared(job, name=name) for job, name in zip(jobs, names, strict=True)]
    keys = [outputs["key"] for outputs in prepared]
    assert len(set(keys)) == len(jobs)
    assert keys[:2] == [_prepared(job)["key"] for job in jobs[:2]]
    assert _prepared(site.job(run_attempt="2"), name="small") == prepared[6]
    assert _prepared(site.job(run_attempt="2"))["key"] == keys[0]
    assert len({_prepared(jobs[0], set=f"a={n}\nb=1")["key"] for n in range(3)}) == 3
    assert all("\n" not in key for key in keys)
    threads = [outputs["thread"] for outputs in prepared]
    assert threads[0] == threads[4]  # the next push writes into the same comment
    assert len({*threads[:4], threads[6]}) == 5
    assert _prepared(site.job(run_id="82"), name="small")["thread"] == threads[6]
    assert _prepared(jobs[1], key="nightly")["key"] == "nightly"


def _prepared(job: Job, **inputs: Any) -> dict[str, str]:
    """What the first step gives; nothing is submitted."""
    ran = run(job, **{"experiment": "none.yaml", **inputs})
    assert ran.steps["prepare"].outcome == "success"
    assert ran.failed
    return ran.steps["prepare"].outputs


def test_what_never_was_submitted_fails_the_job_and_the_summary_says_so(site: Site) -> None:
    ran = run(site.job(), experiment="none.yaml")
    assert ran.steps["run"].status == 3
    assert "there is no file none.yaml" in ran.steps["run"].log
    assert ran.steps["report"].outcome == "success"
    assert "No experiment was submitted" in ran.summary
    assert ran.outputs["experiment"] == ""


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"wait": "yes"}, "::error title=wait is 'yes'::It can be true or false."),
        ({"logs": ""}, "::error title=logs is ''::"),
        ({"on_cancel": "kill"}, "::error title=on-cancel is 'kill'::"),
        ({"timeout": "soon"}, "'soon' is not a duration"),
        ({"set": "nonsense"}, "nonsense"),
        ({"key": "a.t3"}, "ends like a trial's id"),
        ({"wait": "false", "timeout": "1h"}, "::error title=timeout goes with wait%3A true::"),
    ],
)
def test_an_input_that_means_nothing_is_told_and_nothing_is_submitted(
    site: Site, inputs: dict[str, str], said: str
) -> None:
    write(site, "print('done')")
    ran = run(site.job(), **inputs)
    assert ran.failed
    assert said in ran.steps["run"].log
    assert "No experiment was submitted" in ran.summary


BAD = "x$(touch pwned)`touch pwned`\"; touch pwned; '$((a[$(touch pwned)]))"


@pytest.mark.parametrize(
    "name", ["experiment", "pool", "set", "budget", "timeout", "key", "wait", "logs", "on_cancel"]
)
def test_no_input_is_ever_run(site: Site, name: str) -> None:
    write(site, "print('done')")
    for text in (BAD, f"--help\n{BAD}\n* ?"):
        run(site.job(), **{**_nowhere(name), name: text})
    assert list(site.workspace.parent.rglob("pwned")) == []


def _nowhere(name: str) -> dict[str, str]:
    """So that nothing is trained on the way."""
    return {} if name == "experiment" else {"experiment": "none.yaml"}


def test_a_role_is_taken_on_before_anything_is_submitted(site: Site) -> None:
    role = "arn:aws:iam::123456789012:role/burst-lab-github"
    ran = run(site.job(), experiment="none.yaml", role=role, region="eu-central-1")
    order = list(ran.steps)
    taken = ran.steps["Take on the role"]
    assert order.index("Take on the role") < order.index("run")
    assert taken.uses.startswith("aws-actions/configure-aws-credentials@")
    assert taken.given["role-to-assume"] == role
    assert taken.given["role-duration-seconds"] == "21600"
    assert run(site.job(), experiment="none.yaml").steps["Take on the role"].outcome == "skipped"


def test_where_burst_is_said_to_be_installed_and_is_not_it_says_so(site: Site) -> None:
    job = site.job()
    job.environ = {**job.environ, "PATH": "/usr/bin:/bin"}
    ran = run(job)
    assert ran.steps["prepare"].outcome == "failure"
    assert "there is no burst on the PATH" in ran.log
    assert ran.steps["run"].outcome == ran.steps["report"].outcome == "skipped"


def test_a_python_that_is_too_old_or_none_is_told(site: Site, tmp_path: Path) -> None:
    old = tmp_path / "old-python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    for name in (str(old), "no-such-python"):
        ran = run(site.job(), version="", python=name)
        assert "::error title=burst needs Python 3.11::" in ran.log
        assert ran.steps["run"].outcome == "skipped"


@pytest.mark.slow
def test_it_installs_the_burst_that_it_is_part_of(site: Site) -> None:
    """Really, but for the network: what burst needs is found where this test has it."""
    job = site.job()
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    job.environ = {**job.environ, **offline, "PYTHONPATH": sysconfig.get_paths()["purelib"]}
    ran = run(job, version="", experiment="none.yaml")
    own = site.place / "burst"
    assert ran.steps["prepare"].outputs["burst"] == str(own / "bin" / "burst"), ran.log
    assert list(own.glob("lib/python3*/site-packages/burst/cli/main.py"))
    assert "there is no file none.yaml" in ran.steps["run"].log
