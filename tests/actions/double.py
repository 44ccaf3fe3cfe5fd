"""A double of the runner of GitHub Actions: reads a composite action and runs its steps.

It does what the real one does with `run:` steps: expressions in `env`, `with`, `if` and
`working-directory`, a bash of its own for every step with files for outputs and the summary, and a
cancellation that only the process hears that a step was started as. Steps that use another action
are noted and not run. An expression that it does not know is an error, so that the action can hold
none that is not tried.

Source: GitHub Docs, "Metadata syntax", "Workflow syntax", "Workflow cancellation".
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

TERM_AFTER_S, KILL_AFTER_S = 7.5, 2.5
"""As the real one: SIGINT, then SIGTERM, then the end of the process."""
_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_COLONS = re.compile(r"\s*::(?P<name>[^ :]+)(?: .*?)?::(?P<data>.*)")
_BRACKET = re.compile(r"##\[(?P<name>[^ \]]+)[^\]]*\](?P<data>.*)")
_TERM = re.compile(r"(?P<left>[\w.-]+|'[^']*')\s*(?P<how>==|!=)\s*'(?P<right>[^']*)'")


@dataclass
class Step:
    """What became of one step."""

    name: str
    outcome: str = "skipped"
    status: int | None = None
    log: str = ""
    outputs: dict[str, str] = field(default_factory=dict)
    uses: str = ""
    given: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Ran:
    """What became of the action."""

    steps: dict[str, Step]
    outputs: dict[str, str]
    summary: str

    @property
    def failed(self) -> bool:
        return any(step.outcome == "failure" for step in self.steps.values())

    @property
    def log(self) -> str:
        return "".join(step.log for step in self.steps.values())


@dataclass
class Job:
    """A job in a workflow run that uses the action.

    Args:
        action: the folder with action.yml.
        place: for files of the job.
        workspace: the checkout.
        environ: of the machine.
        github: the `github` context, nested.
        matrix: what of the matrix it is.
    """

    action: Path
    place: Path
    workspace: Path
    environ: Mapping[str, str]
    github: Mapping[str, Any]
    matrix: Mapping[str, Any] | None = None

    def run(
        self,
        *,
        cancel: Callable[[], bool] | None = None,
        after_cancel: bool = True,
        **inputs: str,
    ) -> Ran:
        """Run all steps.

        Args:
            cancel: asked again and again while the step `run` goes on; cancels the job once it
                holds.
            after_cancel: whether steps that always run do so in a job that was cancelled, which
                the real one does not promise within an action.
        """
        whole = yaml.safe_load((self.action / "action.yml").read_text())
        unknown = inputs.keys() - {name.replace("-", "_") for name in whole["inputs"]}
        assert not unknown, f"the action has no input {unknown}"
        self._cancelled = False
        self._summary = self.place / f"summary-{time.monotonic_ns()}"
        self._summary.touch()
        self._steps: dict[str, Step] = {}
        self._inputs = {
            name: inputs.get(name.replace("-", "_"), self._filled(str(one.get("default", ""))))
            for name, one in whole["inputs"].items()
        }
        for one in whole["runs"]["steps"]:
            done = self._step(one, cancel, after_cancel)
            self._steps[one.get("id", one["name"])] = done
        outputs = {name: self._filled(each["value"]) for name, each in whole["outputs"].items()}
        return Ran(self._steps, outputs, self._summary.read_text())

    def _step(
        self, one: Mapping[str, Any], cancel: Callable[[], bool] | None, after_cancel: bool
    ) -> Step:
        step = Step(one["name"], uses=one.get("uses", ""))
        if not self._holds(one.get("if", "success()")) or (self._cancelled and not after_cancel):
            return step
        if step.uses:
            step.given = {name: self._filled(value) for name, value in one["with"].items()}
            step.outcome = "success"
            return step
        assert one["shell"] == "bash"
        assert not _EXPRESSION.search(one["run"]), "expressions belong into env"
        self._bash(one, step, cancel if one.get("id") == "run" else None)
        return step

    def _bash(self, one: Mapping[str, Any], step: Step, cancel: Callable[[], bool] | None) -> None:
        files = self.place / f"step-{time.monotonic_ns()}"
        files.mkdir(parents=True)
        script, output, log = (files / name for name in ("run.sh", "output", "log"))
        script.write_text(one["run"])
        output.touch()
        folder = self.workspace / self._filled(one.get("working-directory", "."))
        with log.open("wb") as sink:
            process = subprocess.Popen(
                ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)],
                cwd=folder,
                env=self._environ(one.get("env", {}), output),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # a suite that was started in the background has Ctrl-C ignored, and so would this
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
            if cancel is not None:
                self._cancel_once(process, cancel)
            step.status = process.wait()
        step.log = log.read_text()
        step.outputs = _read_outputs(output.read_text())
        step.outcome = "success" if step.status == 0 else "failure"
        if cancel is not None and self._cancelled:
            step.outcome = "cancelled"

    def _cancel_once(self, process: subprocess.Popen[bytes], cancel: Callable[[], bool]) -> None:
        while process.poll() is None and not cancel():
            time.sleep(0.1)
        self._cancelled = process.poll() is None
        for number, wait in ((signal.SIGINT, TERM_AFTER_S), (signal.SIGTERM, KILL_AFTER_S)):
            if process.poll() is None:
                process.send_signal(number)
                try:
                    process.wait(wait)
                except subprocess.TimeoutExpired:
                    continue
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)

    def _environ(self, env: Mapping[str, str], output: Path) -> dict[str, str]:
        github = {
            f"GITHUB_{name.upper()}": str(value)
            for name, value in self.github.items()
            if isinstance(value, str)
        }
        return {
            **self.environ,
            **github,
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION_PATH": str(self.action),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(self._summary),
            "RUNNER_TEMP": str(self.place),
            **{name: self._filled(value) for name, value in env.items()},
        }

    def _holds(self, condition: str) -> bool:
        terms = [term.strip() for term in condition.split("&&")]
        states = ("always()", "success()", "cancelled()", "failure()")
        if not any(term in states for term in terms):
            terms.append("success()")
        return all(self._term(term) for term in terms)

    def _term(self, term: str) -> bool:
        failed = any(step.outcome == "failure" for step in self._steps.values())
        known = {
            "always()": True,
            "success()": not failed and not self._cancelled,
            "failure()": failed and not self._cancelled,
            "cancelled()": self._cancelled,
        }
        if term in known:
            return known[term]
        match = _TERM.fullmatch(term)
        assert match, f"the double does not know the condition {term!r}"
        same = self._value(match["left"]) == match["right"]
        return same if match["how"] == "==" else not same

    def _filled(self, text: str) -> str:
        return _EXPRESSION.sub(lambda match: self._value(match[1].strip()), text)

    def _value(self, expression: str) -> str:
        if expression == "toJSON(matrix)":
            return json.dumps(self.matrix, indent=2)
        root, *rest = expression.split(".")
        if root == "inputs" and len(rest) == 1:
            return self._inputs[rest[0]]
        if root == "github":
            return self._github(rest)
        if root == "steps" and len(rest) == 3 and rest[1] == "outputs":
            step = self._steps.get(rest[0])
            return step.outputs.get(rest[2], "") if step else ""
        raise AssertionError(f"the double does not know the expression {expression!r}")

    def _github(self, path: list[str]) -> str:
        found: Any = self.github
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        return "" if found is None else str(found)


def obeyed(log: str) -> list[tuple[str, str]]:
    """The commands that the runner finds in a step's log, each with what is given to it.

    Source: actions/runner, ActionCommand.cs and ActionCommandManager.cs: `::` where a line begins,
    after spaces, and `##[` anywhere in it; after `stop-commands` none until its word comes.
    """
    found: list[tuple[str, str]] = []
    stopped = ""
    for line in re.split(r"\r\n|\r|\n", log):
        match = _COLONS.match(line) or _BRACKET.search(line)
        if match is None or (stopped and match["name"] != stopped):
            continue
        stopped = match["data"] if match["name"] == "stop-commands" else ""
        found.append((match["name"], match["data"]))
    return found


def _read_outputs(text: str) -> dict[str, str]:
    """`name=value` lines; the action writes no others."""
    pairs = [line.partition("=") for line in text.splitlines()]
    assert all(sep for _, sep, _ in pairs), text
    return {name: value for name, _, value in pairs}
