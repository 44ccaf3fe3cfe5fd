"""The credentials of the newest shell count, and those of an older runner do not."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.cli import handing_over
from burst.cli.driving import driving, is_driven, runner_log, start_runner
from burst.cli.handing_over import bring, fingerprint, is_superseded, take_over
from tests.cli.conftest import Burst
from tests.cli.world import experiment, put, trial

NOBODY = {"PATH": "/bin", "AWS_DEFAULT_REGION": "us-east-1", "AWS_CONFIG_FILE": "/c"}
KEYS = {**NOBODY, "AWS_ACCESS_KEY_ID": "AKIA1", "AWS_SECRET_ACCESS_KEY": "one"}
RENEWED = {**KEYS, "AWS_SESSION_TOKEN": "another"}
PROFILE = {**NOBODY, "AWS_PROFILE": "lab"}


def test_only_what_says_who_asks_is_told_apart() -> None:
    told = [fingerprint(each) for each in (KEYS, RENEWED, PROFILE)]
    assert len(set(told)) == 3
    assert fingerprint(NOBODY) == fingerprint({}) == ""
    assert fingerprint({**KEYS, "PATH": "/elsewhere"}) == fingerprint(KEYS)


def test_no_secret_is_written_down(tmp_path: Path) -> None:
    assert bring(tmp_path, RENEWED)
    written = "".join(path.read_text() for path in tmp_path.iterdir())
    assert not any(value in written for value in ("AKIA1", "one", "another"))


@given(st.lists(st.sampled_from([NOBODY, KEYS, RENEWED, PROFILE])))
def test_exactly_the_newest_credentials_are_not_superseded(
    tmp_path_factory: pytest.TempPathFactory, shells: list[dict[str, str]]
) -> None:
    home = tmp_path_factory.mktemp("home")
    newest: dict[str, str] | None = None
    for shell in shells:
        assert bring(home, shell) == (shell not in (NOBODY, newest))
        newest = newest if shell is NOBODY else shell
        for runner in (NOBODY, KEYS, RENEWED, PROFILE):
            assert is_superseded(home, runner) == (newest is not None and runner != newest)


@pytest.mark.parametrize("driven", [False, True])
@pytest.mark.parametrize(("shell", "again"), [(KEYS, 1), (RENEWED, 2), (NOBODY, 1)])
def test_a_runner_starts_where_nobody_drives_or_with_other_credentials(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    driven: bool,
    shell: dict[str, str],
    again: int,
) -> None:
    started: list[object] = []
    monkeypatch.setattr(handing_over, "start_runner", lambda *given: started.append(given[1]))
    bring(tmp_path, KEYS)
    if driven:
        with driving(tmp_path):
            take_over(tmp_path, shell, tmp_path)
        assert started == ([shell] if again == 2 else [])
    else:
        take_over(tmp_path, shell, tmp_path)
        assert started == [shell]


def test_a_background_runner_leaves_to_one_with_the_newest_credentials(
    burst_home: Path, burst: Burst
) -> None:
    put(burst.store, experiment(), trial(pools=("nowhere",)))  # so that none is ever idle
    bare = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    with_keys = {**bare, "AWS_ACCESS_KEY_ID": "AKIA1", "AWS_SECRET_ACCESS_KEY": "one"}
    assert bring(burst_home, with_keys)
    newest = start_runner(burst_home, with_keys, burst_home)
    try:
        other = start_runner(burst_home, bare, burst_home)
        assert os.waitpid(other, 0) == (other, 0), runner_log(burst_home).read_text()
        assert os.waitpid(newest, os.WNOHANG) == (0, 0)
        assert is_driven(burst_home)
    finally:
        os.kill(newest, signal.SIGKILL)
        os.waitpid(newest, 0)
