"""The workflows and actions of the repository are right, as far as that is seen without GitHub."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.test_documentation import check_call

ROOT = Path(__file__).parent.parent
GITHUB = ROOT / ".github"
ACTION = GITHUB / "actions" / "burst-run" / "action.yml"
TRAIN = GITHUB / "workflows" / "train.yml"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
ACTIONS = sorted((GITHUB / "actions").glob("*/action.yml"))
SCRIPTS = sorted((GITHUB / "actions").glob("*/*.sh"))
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")
EXPRESSION = re.compile(r"\$\{\{")


def tool(name: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name(name), *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def load(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.load(path.read_text(), Loader=yaml.BaseLoader)
    return loaded


def steps_of(path: Path) -> Iterator[Mapping[str, Any]]:
    whole = load(path)
    yield from whole["runs"]["steps"] if "runs" in whole else []
    for job in whole.get("jobs", {}).values():
        yield from job.get("steps", [])


def test_there_are_those_that_are_looked_at() -> None:
    assert {path.name for path in WORKFLOWS} >= {"ci.yml", "train.yml"}
    assert ACTION in ACTIONS
    assert len(SCRIPTS) == 5


def test_jactionlint_finds_nothing() -> None:
    done = tool("jactionlint", *WORKFLOWS, *ACTIONS)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("schema", "paths"),
    [("vendor.github-workflows", WORKFLOWS), ("vendor.github-actions", ACTIONS)],
)
def test_they_are_what_githubs_schemas_say(schema: str, paths: list[Path]) -> None:
    done = tool("check-jsonschema", "--builtin-schema", schema, *paths)
    assert done.returncode == 0, done.stdout + done.stderr


def test_zizmor_finds_nothing() -> None:
    done = tool("zizmor", "--offline", "--no-progress", GITHUB)
    assert done.returncode == 0, done.stdout + done.stderr


def test_shellcheck_finds_nothing() -> None:
    done = tool("shellcheck", *SCRIPTS)
    assert done.returncode == 0, done.stdout + done.stderr


BROKEN = """
name: broken
on: {push: {branches: [main]}, pull_request_target: {}}
permissions: {contents: read}
jobs:
  test:
    runs-on: ubuntu-24.04
    timeout-minutes: 5
    steps:
      - uses: actions/checkout@v4
      - run: echo ${{ github.event.pull_request.title }} ${{ steps.none.outputs.x }}
      - rum: nothing
"""


def test_what_is_wrong_would_be_found(tmp_path: Path) -> None:
    place = tmp_path / ".github" / "workflows"
    place.mkdir(parents=True)
    (place / "broken.yml").write_text(BROKEN)
    assert tool("jactionlint", place / "broken.yml").returncode != 0
    schema = ("--builtin-schema", "vendor.github-workflows")
    assert tool("check-jsonschema", *schema, place / "broken.yml").returncode != 0
    (place / "broken.yml").write_text(BROKEN.replace("      - rum: nothing\n", ""))
    assert tool("zizmor", "--offline", "--no-progress", place).returncode != 0
    (tmp_path / "a.sh").write_text("#!/bin/bash\nrm -r $1/\n")
    assert tool("shellcheck", tmp_path / "a.sh").returncode != 0


@pytest.mark.parametrize("path", [*WORKFLOWS, *ACTIONS], ids=lambda path: path.parent.name)
def test_nothing_from_outside_is_ever_part_of_a_script(path: Path) -> None:
    assert [step["run"] for step in steps_of(path) if EXPRESSION.search(step.get("run", ""))] == []


@pytest.mark.parametrize("path", [*WORKFLOWS, *ACTIONS], ids=lambda path: path.parent.name)
def test_what_is_used_of_others_is_pinned_to_a_commit(path: Path) -> None:
    used = [step["uses"] for step in steps_of(path) if "uses" in step]
    assert [one for one in used if not (one.startswith("$/") or PINNED.fullmatch(one))] == []


def test_the_workflow_hands_on_every_input_and_every_output_of_the_action() -> None:
    action, train = load(ACTION), load(TRAIN)
    job = train["jobs"]["train"]
    (step,) = (each for each in job["steps"] if each.get("id") == "run")
    decided = {"version", "python", "github-token"}
    given = step["with"]
    assert given.keys() == action["inputs"].keys() - decided | {"python"}
    inputs = train["on"]["workflow_call"]["inputs"]
    for name in given.keys() - {"python"}:
        assert given[name] == f"${{{{ inputs.{name} }}}}"
        assert inputs[name]["default"] == action["inputs"][name]["default"], name
    inner = {"key", "burst"}
    outputs = train["on"]["workflow_call"]["outputs"]
    assert outputs.keys() == job["outputs"].keys() == action["outputs"].keys() - inner
    for name in outputs:
        assert job["outputs"][name] == f"${{{{ steps.run.outputs.{name} }}}}"
        assert outputs[name]["value"] == f"${{{{ jobs.train.outputs.{name} }}}}"


def test_the_workflow_has_no_more_permissions_than_it_needs() -> None:
    train = load(TRAIN)
    assert train["permissions"] == {}
    wanted = {"contents": "read", "id-token": "write", "pull-requests": "write"}
    assert train["jobs"]["train"]["permissions"] == wanted


def test_the_step_becomes_burst_so_that_a_cancellation_reaches_it() -> None:
    (step,) = (each for each in steps_of(ACTION) if each.get("id") == "run")
    assert step["run"].startswith("exec ")
    last = (ACTION.parent / "run.sh").read_text().rstrip().splitlines()[-1]
    assert last.startswith('exec "$BURST" run ')


def test_the_role_is_taken_on_for_no_longer_than_it_allows() -> None:
    from burst.infra.components import github

    asked = int(load(ACTION)["inputs"]["role-duration"]["default"])
    assert asked <= github._LONGEST_S


def test_the_projects_own_workflow_runs_the_checks_first() -> None:
    ci = load(GITHUB / "workflows" / "ci.yml")
    runs = [step["run"] for step in ci["jobs"]["test"]["steps"] if "run" in step]
    assert runs == [".ci/run"]
    called = [
        line
        for line in (ROOT / ".ci" / "run").read_text().splitlines()
        if line.startswith("scripts/")
    ]
    assert called == ["scripts/check", "scripts/test"]


def documented(kind: str) -> list[str]:
    page = (ROOT / "docs" / "github-actions.md").read_text()
    return re.findall(rf"^```{kind}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def test_every_workflow_in_the_page_is_one(tmp_path: Path) -> None:
    place = tmp_path / ".github" / "workflows"
    place.mkdir(parents=True)
    found = documented("yaml workflow")
    assert found
    for number, text in enumerate(found):
        (place / f"{number}.yml").write_text(text)
    paths = sorted(place.iterdir())
    for words in (
        ("jactionlint", *paths),
        ("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *paths),
    ):
        done = tool(*words)  # type: ignore[arg-type]
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_input_in_a_workflow_of_the_page_is_there() -> None:
    known = {
        "action": load(ACTION)["inputs"],
        "workflow": load(TRAIN)["on"]["workflow_call"]["inputs"],
    }
    tried = set()
    for text in documented("yaml workflow"):
        for job in yaml.safe_load(text)["jobs"].values():
            for step in [job, *job.get("steps", [])]:
                uses = str(step.get("uses", ""))
                kind = (
                    "workflow"
                    if "train.yml@" in uses
                    else "action"
                    if "burst-run@" in uses
                    else ""
                )
                if kind:
                    tried.add(kind)
                    assert step.get("with", {}).keys() <= known[kind].keys()
    assert tried == {"action", "workflow"}


def test_every_input_and_output_is_described_in_the_page() -> None:
    page = (ROOT / "docs" / "github-actions.md").read_text()
    action, train = load(ACTION), load(TRAIN)
    names = {*action["inputs"], *action["outputs"], *train["on"]["workflow_call"]["inputs"]}
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


def test_the_gitlab_snippet_is_what_gitlab_reads(tmp_path: Path) -> None:
    (text,) = documented("yml gitlab")
    path = tmp_path / ".gitlab-ci.yml"
    path.write_text(text)
    schema = ("--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci")
    done = tool("check-jsonschema", *schema, path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_command_in_the_gitlab_snippet_is_there() -> None:
    (text,) = documented("yml gitlab")
    calls = re.findall(r"\bburst [^;\n]*", text)
    assert len(calls) >= 4
    told = {call: check_call(tuple(shlex.split(call.split(" > ")[0])[1:])) for call in calls}
    assert {call: wrong for call, wrong in told.items() if wrong} == {}
