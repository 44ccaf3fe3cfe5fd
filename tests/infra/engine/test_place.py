"""Where the record of a stack is kept, and what its secrets are encrypted with."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from burst.core.errors import BurstError, UsageError
from burst.infra.engine.place import Place, place_of

WHERE = "123456789012-us-east-1"


def place(home: Path, url: str | None = None, stack: str = "lab", **environ: str) -> Place:
    return place_of(environ, home, where=WHERE, stack=stack, url=url)


def test_the_same_cluster_in_two_accounts_is_two_records(tmp_path: Path) -> None:
    one = place(tmp_path)
    other = place_of({}, tmp_path, where="210987654321-us-east-1", stack="lab", url=None)
    assert one.url == f"file://{tmp_path}/pulumi/{WHERE}"
    assert one.url != other.url
    assert one.work != other.work
    assert one.is_local


def test_an_option_wins_over_the_environment_and_that_over_the_home(tmp_path: Path) -> None:
    named = {"PULUMI_BACKEND_URL": "s3://ours/burst"}
    assert place(tmp_path, **named).url == "s3://ours/burst"
    assert not place(tmp_path, **named).is_local
    assert place(tmp_path, "s3://other/burst", **named).url == "s3://other/burst"
    assert place(tmp_path, "s3://x").environ["PULUMI_BACKEND_URL"] == "s3://x"


@pytest.mark.parametrize("url", ["https://api.pulumi.com", "ftp://x", "pulumi"])
def test_what_is_no_folder_and_no_bucket_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no place"):
        place(tmp_path, url)


@pytest.mark.parametrize("stack", ["", "a/b", "a b", "x" * 101])
def test_a_name_that_pulumi_would_not_take_is_refused(stack: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no name of a stack"):
        place(tmp_path, stack=stack)


def test_a_passphrase_is_made_once_for_the_owner_alone(tmp_path: Path) -> None:
    file = Path(place(tmp_path).environ["PULUMI_CONFIG_PASSPHRASE_FILE"])
    words = file.read_text()
    assert len(words) > 30
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert place(tmp_path).environ["PULUMI_CONFIG_PASSPHRASE_FILE"] == str(file)
    assert file.read_text() == words
    assert [each.name for each in file.parent.iterdir()] == ["passphrase"]


@pytest.mark.parametrize("name", ["PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"])
def test_a_passphrase_of_a_persons_own_is_theirs(name: str, tmp_path: Path) -> None:
    found = place(tmp_path, **{name: ""})
    assert not any("PASSPHRASE" in each for each in found.environ)
    assert not (tmp_path / "pulumi" / "passphrase").exists()


def test_folders_are_for_the_owner_alone(tmp_path: Path) -> None:
    found = place(tmp_path)
    found.make()
    folder = Path(found.url.removeprefix("file://"))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    found.make()


def test_a_place_that_cannot_be_made_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = place(tmp_path, f"file://{tmp_path}/file/below")
    with pytest.raises(BurstError, match="cannot keep the record"):
        found.make()
