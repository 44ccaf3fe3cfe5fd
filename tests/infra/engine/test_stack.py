"""One stack by the double of Pulumi's command: no cloud is needed where nothing is made in it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from burst.core.errors import BurstError, ConfigError, ExitCode, Refused
from burst.infra.engine.command import Command
from burst.infra.engine.hearing import Told
from burst.infra.engine.place import place_of
from burst.infra.engine.stack import Engine, Interrupted
from tests.infra.double.launching import engine

WHERE = "123456789012-us-east-1"
Open = Callable[..., Engine]


class Heard(Told):
    """What a person was warned of."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warned(self, words: str) -> None:
        self.warnings.append(words)


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    with engine(tmp_path / "pulumi", {}) as double:
        monkeypatch.setenv("PULUMI_HOME", double.environ["PULUMI_HOME"])
        for name in ("PULUMI_BACKEND_URL", "PULUMI_CONFIG_PASSPHRASE"):
            monkeypatch.delenv(name, raising=False)

        def make(
            home: str = "home", environ: Mapping[str, str] | None = None, **how: bool
        ) -> Engine:
            place = place_of(environ or {}, tmp_path / home, where=WHERE, stack="lab", url=None)
            return Engine(Command(str(double.root)), place, **how)

        yield make


def says() -> dict[str, Any]:
    return {"cluster": "lab", "pools": {"spot": ["c5.large"]}}


def lock(tmp_path: Path, pid: int, host: str) -> Path:
    below = tmp_path / "home" / "pulumi" / WHERE / ".pulumi" / "locks" / "organization" / "burst"
    file = below / "lab" / "x.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    held = {"pid": pid, "username": "ada", "hostname": host, "timestamp": "2026-11-30T06:31:02Z"}
    file.write_text(json.dumps(held))
    return file


def dead_pid() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


@pytest.mark.slow
def test_what_a_stack_tells_of_itself_is_there_for_the_next_command(opened: Open) -> None:
    first = opened()
    assert first.export() is None
    assert first.outputs() == {}
    changes, outputs = first.up(says, Told())
    assert not changes
    assert outputs == says()
    second = opened()
    assert second.outputs() == says()
    assert second.preview(says).doing == []
    record = second.export()
    assert record is not None
    assert record["deployment"]["resources"]
    second.destroy(Told(), keep_data=False)
    second.forget()
    assert opened().export() is None
    opened().forget()


@pytest.mark.slow
def test_a_lock_of_a_command_that_was_killed_here_is_removed(opened: Open, tmp_path: Path) -> None:
    opened().up(says, Told())
    file, heard = lock(tmp_path, dead_pid(), socket.gethostname()), Heard()
    opened().up(says, heard)
    assert not file.exists()
    assert "removed a lock that was left behind by process" in heard.warnings[0]


@pytest.mark.slow
@pytest.mark.parametrize("host", ["here", "elsewhere"])
def test_a_lock_that_somebody_may_hold_is_theirs_until_it_is_said_otherwise(
    host: str, opened: Open, tmp_path: Path
) -> None:
    opened().up(says, Told())
    where = socket.gethostname() if host == "here" else host
    file = lock(tmp_path, os.getpid() if host == "here" else dead_pid(), where)
    with pytest.raises(Refused, match="another command is at work") as refused:
        opened().destroy(Told(), keep_data=False)
    assert f"of ada on {where}, since 2026-11-30T06:31:02Z" in refused.value.why
    assert "--unlock" in refused.value.mend
    assert file.exists()
    opened(unlock=True).destroy(Told(), keep_data=False)
    assert not file.exists()


def test_what_the_program_says_is_wrong_is_told_as_it_said_it(opened: Open) -> None:
    def wrong() -> dict[str, Any]:
        raise ConfigError("a zone is missing", why="it has none", mend="name one")

    with pytest.raises(ConfigError, match="a zone is missing"):
        opened().preview(wrong)
    with pytest.raises(ConfigError, match="a zone is missing"):
        opened().up(wrong, Told())


def test_once_interrupted_nothing_more_is_begun(opened: Open) -> None:
    stopped = opened()
    stopped.up(says, Told())
    stopped.interrupt()
    with pytest.raises(Interrupted) as raised:
        stopped.up(says, Told())
    assert raised.value.exit_code == ExitCode.INTERRUPTED
    assert "goes on from here" in raised.value.mend
    assert stopped.export() is not None  # looking is not beginning


@pytest.mark.slow
def test_a_command_that_is_killed_is_told_with_where_it_was(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened().up(says, Told())
    monkeypatch.setenv("PULUMI_DOUBLE_DIES_AT", "1")
    with pytest.raises(BurstError, match="not all was removed") as raised:
        opened().destroy(Told(), keep_data=False)
    assert "ended with status" in raised.value.why
    monkeypatch.delenv("PULUMI_DOUBLE_DIES_AT")
    opened().destroy(Told(), keep_data=False)


def test_a_record_moves_to_another_home_whose_passphrase_is_another(opened: Open) -> None:
    from burst.infra.account.copying import portable

    opened().up(says, Told())
    record = opened().export()
    assert record is not None
    other = opened("other")
    other.restore(portable(record))
    assert other.outputs() == says()
    assert other.preview(says).doing == []
