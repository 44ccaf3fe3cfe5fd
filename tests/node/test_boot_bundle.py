"""A node has burst from the bucket, or from its image, or it ends."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from burst.infra.bundle import build_bundle
from tests.node.imds_server import ImdsServer
from tests.node.machine_of_fakes import Fakes

URL = "s3://burst-lab/cluster/node-0a1b.zip"
DENIED = "fatal error: An error occurred (403) when calling the HeadObject operation: Forbidden"


class Machine(Fakes):
    """One whose AWS CLI gives the bundle at one of its tries."""

    def __init__(self, folder: Path, *, at: int, main: str = "") -> None:
        super().__init__(folder)
        self.python = self.bin / "python"
        self.program("python", f'exec {sys.executable} -S "$@"')
        bundle = folder / "bundle.zip"
        with zipfile.ZipFile(bundle, "w") as archive:
            for package in ("burst/runner", "burst/runner/node"):
                archive.writestr(f"{package}/__init__.py", "")
            archive.writestr("burst/runner/node/main.py", main)
        lines = (
            f'echo "$*" >> "{folder}/asked"',
            f'if [ "$(wc -l < "{folder}/asked")" -lt {at} ]; then',
            f'    echo "{DENIED}" >&2; exit 1',
            "fi",
            f'while [ $# -gt 1 ]; do shift; done; cp "{bundle}" "$1"',
        )
        self.program("aws", "\n".join(lines))
        self.environ |= {"BURST_OPT": str(folder / "opt"), "BURST_BUNDLE_PAUSE": "0"}

    @property
    def asked(self) -> list[str]:
        path = self.folder / "asked"
        return path.read_text().splitlines() if path.exists() else []

    def fetch(self, **environ: str) -> tuple[int, str, str]:
        done = self.run("bundle.sh", URL, str(self.python), **environ)
        return done.returncode, done.stdout.strip(), done.stderr


def test_what_is_fetched_is_unpacked_where_its_digest_says(tmp_path: Path) -> None:
    machine = Machine(tmp_path, at=1)
    status, folder, said = machine.fetch()
    assert (status, folder) == (0, str(tmp_path / "opt" / "0a1b"))
    assert (Path(folder) / "burst" / "runner" / "node" / "main.py").is_file()
    assert said == "burst: has burst 0a1b now\n"
    assert [path.name for path in (tmp_path / "opt").iterdir()] == ["0a1b"], "nothing is left over"
    [asked] = machine.asked
    assert asked.startswith("s3 cp ")
    assert URL in asked.split()


def test_what_s3_refuses_at_first_is_had_at_the_third_try(tmp_path: Path) -> None:
    machine = Machine(tmp_path, at=3)
    status, folder, said = machine.fetch()
    assert status == 0
    assert Path(folder).is_dir()
    assert len(machine.asked) == 3
    assert f"cannot fetch {URL} yet (2 of 14): {DENIED}" in said


def test_what_is_never_to_be_had_is_given_up_with_what_s3_said(tmp_path: Path) -> None:
    machine = Machine(tmp_path, at=100)
    status, folder, said = machine.fetch(BURST_BUNDLE_TRIES="4")
    assert (status, folder) == (1, "")
    assert len(machine.asked) == 4
    assert said.count(DENIED) == 4
    assert said.splitlines()[-1] == f"burst: gives up: cannot fetch {URL}: {DENIED}"


@pytest.mark.parametrize(
    ("python", "why"),
    [
        (None, "No such file or directory"),
        ("exit 3", "status 3, without a word"),
        ("echo; exit 3", "status 3, without a word"),
        ("echo 'libpython3.13.so: cannot open' >&2; exit 127", "libpython3.13.so: cannot open"),
        ("exit 0", "it says ''"),
        ("echo usage", "it says 'usage'"),
    ],
)
@pytest.mark.parametrize("there", [False, True])
def test_a_python_that_is_none_ends_it_at_once_with_the_reason(
    tmp_path: Path, python: str | None, why: str, there: bool
) -> None:
    machine = Machine(tmp_path, at=1)
    if there:
        assert machine.fetch()[0] == 0
        (tmp_path / "asked").unlink()
    if python is None:
        machine.python.unlink()
    else:
        machine.program("python", python)
    status, folder, said = machine.fetch()
    assert (status, folder) == (1, "")
    assert machine.asked == [], "nothing is fetched for it"
    [line] = said.splitlines()
    assert line.startswith("burst: ")
    assert f"aws.python, {machine.python}" in line
    assert why in line


MISSING = "An error occurred (404) when calling the HeadObject operation: Key does not exist"


@pytest.mark.parametrize(
    "answer",
    [
        f"fatal error: {MISSING}",
        "An error occurred (NoSuchBucket) when calling the GetObject operation",
        "download failed: s3://b/k to zip [Errno 28] No space left on device",
        "cp: error writing 'zip': No space left on device",
        "[Errno 30] Read-only file system: '/opt/burst'",
    ],
)
def test_what_no_further_try_mends_ends_it_at_once(tmp_path: Path, answer: str) -> None:
    machine = Machine(tmp_path, at=1)
    (tmp_path / "answer").write_text(answer)
    machine.program("aws", f'echo try >> "{tmp_path}/asked"; cat "{tmp_path}/answer" >&2; exit 1')
    status, folder, said = machine.fetch()
    assert (status, folder) == (1, "")
    assert len(machine.asked) == 1
    assert said == f"burst: cannot have {URL}: {answer}\n"
    assert list((tmp_path / "opt").iterdir()) == [], "what it took of the disk is given back"


@pytest.mark.parametrize(
    "answer",
    [
        DENIED,
        "fatal error: Unable to locate credentials",
        'Connect timeout on endpoint URL: "https://b.s3.amazonaws.com/k"',
        "An error occurred (SlowDown) when calling the GetObject operation",
        "An error occurred (503) when calling the HeadObject operation: Service Unavailable",
        "",
    ],
)
def test_what_may_pass_is_tried_for_as_long_as_it_is_to_be(tmp_path: Path, answer: str) -> None:
    machine = Machine(tmp_path, at=1)
    (tmp_path / "answer").write_text(answer)
    machine.program("aws", f'echo try >> "{tmp_path}/asked"; cat "{tmp_path}/answer" >&2; exit 1')
    status, _, said = machine.fetch(BURST_BUNDLE_TRIES="3")
    assert status == 1
    assert len(machine.asked) == 3
    assert said.splitlines()[-1].endswith(answer or "status 1, without a word")


def test_an_aws_cli_that_cannot_be_run_is_not_tried_again(tmp_path: Path) -> None:
    machine = Machine(tmp_path, at=1)
    (machine.bin / "aws").write_text("#!/no/such/interpreter\n")
    status, _, said = machine.fetch()
    assert status == 1
    [line] = said.splitlines()
    assert "failed to run" in line


def test_a_place_that_is_no_folder_ends_it_at_once(tmp_path: Path) -> None:
    machine = Machine(tmp_path, at=1)
    (tmp_path / "opt").touch()
    status, folder, said = machine.fetch()
    assert (status, folder) == (1, "")
    assert machine.asked == []
    [line] = said.splitlines()
    assert line.startswith(f"burst: cannot write to {tmp_path}/opt: ")
    assert "Not a directory" in line


def test_a_place_that_is_taken_is_named(tmp_path: Path) -> None:
    machine = Machine(tmp_path, at=1)
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt" / "0a1b").touch()
    status, folder, said = machine.fetch()
    assert (status, folder) == (1, "")
    assert said.startswith(f"burst: cannot put it in {tmp_path}/opt/0a1b: ")


@pytest.mark.parametrize("what", [b"<html>sign in</html>", b"", b"PK\x03\x04 and no more"])
def test_what_is_no_zip_is_fetched_once_more_and_then_named_as_that(
    tmp_path: Path, what: bytes
) -> None:
    machine = Machine(tmp_path, at=2)
    (tmp_path / "bundle.zip").write_bytes(what)
    status, folder, said = machine.fetch()
    assert (status, folder) == (1, "")
    assert len(machine.asked) == 3, "one refused, and two that brought it"
    assert "zip" in said.splitlines()[-1].partition(URL)[2].lower()


def test_a_download_that_was_cut_is_fetched_again(tmp_path: Path) -> None:
    machine = Machine(tmp_path, at=1)
    whole = (tmp_path / "bundle.zip").read_bytes()
    (tmp_path / "bundle.zip").write_bytes(whole[: len(whole) // 2])
    status, folder, said = machine.fetch(BURST_BUNDLE_TRIES="2")
    assert (status, folder) == (1, "")
    assert len(machine.asked) == 2
    assert "zip" in said
    (tmp_path / "bundle.zip").write_bytes(whole)
    assert machine.fetch()[0] == 0


def test_what_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    """It is after a reboot, and on an image that was made with it."""
    machine = Machine(tmp_path, at=1)
    first = machine.fetch()
    status, folder, said = machine.fetch()
    assert (status, folder) == first[:2]
    assert len(machine.asked) == 1
    assert "already" in said


def test_what_was_left_half_unpacked_is_not_taken_for_burst(tmp_path: Path) -> None:
    machine = Machine(tmp_path, at=1)
    left = tmp_path / "opt" / ".0a1b" / "tree" / "burst"
    left.mkdir(parents=True)
    (left / "stale.py").touch()
    status, folder, _ = machine.fetch()
    assert status == 0
    assert not list(Path(folder).rglob("stale.py"))


def test_what_does_not_run_under_the_images_python_is_refused_with_the_reason(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path, at=1, main="import pydantic_core_of_another_python")
    status, folder, said = machine.fetch()
    assert (status, folder) == (1, "")
    [line] = said.splitlines()
    assert f"cannot run under {machine.python}, Python 3." in line
    assert line.endswith("No module named 'pydantic_core_of_another_python'")
    assert not (tmp_path / "opt" / "0a1b").exists()


def test_an_image_without_the_aws_cli_is_named_as_that(tmp_path: Path) -> None:
    machine = Machine(tmp_path, at=1)
    (machine.bin / "aws").unlink()
    status, _, said = machine.fetch()
    assert status == 1
    assert "no AWS CLI" in said


@pytest.mark.slow
def test_what_burst_up_publishes_is_all_that_an_agent_needs(tmp_path: Path) -> None:
    machine = Machine(tmp_path, at=1)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    bundle = build_bundle(
        tmp_path / "made", what="node", python=version, machine=platform.machine()
    )
    shutil.copy(bundle.path, tmp_path / "bundle.zip")
    status, folder, said = machine.fetch()
    assert status == 0, said
    imds = ImdsServer("i-1")
    try:
        done = subprocess.run(
            [sys.executable, "-S", "-m", "burst.runner.node"],
            env={"PYTHONPATH": folder, "AWS_EC2_METADATA_SERVICE_ENDPOINT": imds.url},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        imds.close()
    assert "instance i-1 does not say what it is for" in done.stderr
