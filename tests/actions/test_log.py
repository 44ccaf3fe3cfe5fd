"""GitHub obeys commands in the log of every step, and none that others wrote there."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.actions.conftest import Site
from tests.actions.double import obeyed
from tests.actions.test_burst_run import run, write
from tests.cli.test_github_log import COMMANDS


@pytest.mark.slow
def test_nothing_that_a_rank_writes_into_the_log_of_the_action_is_obeyed(site: Site) -> None:
    script = f"for line in {COMMANDS!r}: print(line)\n"
    write(site, script + "raise ValueError('\\n::add-mask::e\\n##[add-mask]e')")
    step = run(site.job(), logs="true").steps["run"]
    for line in COMMANDS:
        assert line.replace("##[", "## [").strip() in step.log
    assert [name for name, _ in obeyed(step.log)] == ["stop-commands"]
    assert len(obeyed(step.log)[0][1]) == 32
    assert not any(line.startswith(COMMANDS[0]) for line in step.log.splitlines())


FOREIGN = "x\n::add-mask::e\r::error::no\r\n##[error]no"


@pytest.mark.parametrize(
    "inputs",
    [
        {"wait": FOREIGN},
        {"logs": FOREIGN},
        {"on_cancel": FOREIGN},
        {"experiment": FOREIGN},
        {"timeout": FOREIGN},
        {"key": FOREIGN},
        {"name": FOREIGN},
        {"version": "", "python": FOREIGN},
        {"version": "", "python": f"/{FOREIGN}"},
    ],
)
def test_no_line_break_of_an_input_begins_a_command(site: Site, inputs: dict[str, Any]) -> None:
    ran = run(site.job(), **{"experiment": "none.yaml", **inputs})
    assert ran.failed
    found = [each for step in ran.steps.values() for each in obeyed(step.log)]
    own = [name for name, _ in found if not re.fullmatch("stop-commands|[0-9a-f]{32}", name)]
    assert own in ([], ["error"])
    assert not any(data in ("e", "no") for _, data in found)
