"""Packing the user's code: what travels, always the same bytes, and what is refused."""

from __future__ import annotations

import io
import os
import shutil
import socket
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from burst.core.blobs.folder import FolderBlobs
from burst.core.code import files
from burst.core.code.archive import (
    code_key,
    download_code,
    pack_code,
    unpack_code,
    upload_code,
)
from burst.core.errors import BurstError, ConfigError, ExitCode, NotFound, Refused
from burst.core.workspace import open_workspace

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    return folder


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def packed_names(folder: Path) -> list[str]:
    """The files and links in the archive, without folders."""
    with tarfile.open(fileobj=io.BytesIO(pack_code(folder).data)) as tar:
        return [member.name for member in tar if not member.isdir()]


# --- the same bytes ------------------------------------------------------------------------------


def test_what_is_packed_is_unpacked(folder: Path, tmp_path: Path) -> None:
    write(
        folder, {"train.py": "print(1)\n", "lib/a.py": "", "naïve name.txt": "é", "run.sh": "#!"}
    )
    (folder / "run.sh").chmod(0o755)
    (folder / "empty").mkdir()
    (folder / "lib" / "link.py").symlink_to("../train.py")
    unpack_code(pack_code(folder).data, tmp_path / "out")
    found = {
        path.relative_to(tmp_path / "out").as_posix(): (
            os.access(path, os.X_OK),
            path.is_symlink(),
        )
        for path in (tmp_path / "out").rglob("*")
    }
    assert found == {
        "train.py": (False, False),
        "lib": (True, False),
        "lib/a.py": (False, False),
        "lib/link.py": (False, True),
        "naïve name.txt": (False, False),
        "run.sh": (True, False),
        "empty": (True, False),
    }
    assert (tmp_path / "out" / "lib" / "link.py").read_text() == "print(1)\n"
    assert (tmp_path / "out" / "naïve name.txt").read_text() == "é"


def test_the_same_files_give_the_same_bytes_wherever_they_lie(tmp_path: Path) -> None:
    archives = []
    for place, names in (
        ("here", ["b.py", "a.py", "x/c.py"]),
        ("there", ["x/c.py", "a.py", "b.py"]),
    ):
        folder = tmp_path / place
        write(folder, {name: name for name in names})
        (folder / "a.py").chmod(0o600 if place == "here" else 0o664)
        os.utime(folder / "b.py", (1e9, 1e9 if place == "here" else 2e9))
        archives.append(pack_code(folder))
    assert archives[0].data == archives[1].data
    assert archives[0].digest == archives[1].digest
    (tmp_path / "there" / "a.py").chmod(0o755)
    assert pack_code(tmp_path / "there").digest != archives[0].digest


def test_packing_what_was_unpacked_gives_the_same_digest(folder: Path, tmp_path: Path) -> None:
    write(folder, {"train.py": "x", "a/b/c.txt": "y"})
    (folder / "a" / "loop").symlink_to("..")
    packed = pack_code(folder)
    unpack_code(packed.data, tmp_path / "out")
    assert pack_code(tmp_path / "out").digest == packed.digest


# --- what is ignored -----------------------------------------------------------------------------


def test_what_no_trial_needs_never_travels(folder: Path) -> None:
    write(
        folder,
        {
            "train.py": "",
            "__pycache__/train.cpython-311.pyc": "",
            "old.pyc": "",
            ".venv/bin/python": "",
            "myenv/pyvenv.cfg": "home = /usr",
            "myenv/lib/big.py": "",
            "node_modules/x.js": "",
            "sub/.ipynb_checkpoints/x.ipynb": "",
            ".burstignore": "!__pycache__\n",
        },
    )
    assert packed_names(folder) == [".burstignore", "train.py"]


def test_ignore_files_follow_gits_rules(folder: Path) -> None:
    write(
        folder,
        {
            ".gitignore": "# comment\n*.log\n/data\nbuild/\n!keep.log\ndocs/**/*.png\n",
            "a.log": "", "keep.log": "", "sub/b.log": "", "data/x": "", "sub/data/x": "",
            "build/out": "", "sub/build/out": "", "docs/a/b/c.png": "", "docs/c.txt": "",
        },
    )  # fmt: skip
    names = [".gitignore", "docs/c.txt", "keep.log", "sub/data/x"]
    assert packed_names(folder) == names


def test_nested_ignore_files_count_below_them_and_overrule(folder: Path) -> None:
    write(
        folder,
        {
            ".gitignore": "*.csv\n",
            "sub/.gitignore": "!small.csv\n/local\n",
            "small.csv": "", "sub/small.csv": "", "sub/big.csv": "", "sub/local": "", "local": "",
        },
    )  # fmt: skip
    assert packed_names(folder) == [".gitignore", "local", "sub/.gitignore", "sub/small.csv"]


def test_burstignore_has_the_last_word(folder: Path) -> None:
    write(
        folder,
        {
            ".gitignore": "weights.bin\n",
            ".burstignore": "!weights.bin\n/notebooks/\n",
            "weights.bin": "", "notebooks/x.ipynb": "", "train.py": "",
        },
    )  # fmt: skip
    assert packed_names(folder) == [".burstignore", ".gitignore", "train.py", "weights.bin"]


def test_the_repository_around_the_folder_ignores_too(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            ".git/HEAD": "", ".gitignore": "*.ckpt\n/exp/one/scratch\n",
            "exp/one/train.py": "", "exp/one/last.ckpt": "", "exp/one/scratch/x": "",
            "exp/one/deep/scratch/x": "",
        },
    )  # fmt: skip
    assert packed_names(tmp_path / "exp" / "one") == ["deep/scratch/x", "train.py"]


def test_a_folder_that_its_repository_ignores_is_packed_all_the_same(tmp_path: Path) -> None:
    write(tmp_path, {".git/HEAD": "", ".gitignore": "/exp/\n", "exp/train.py": ""})
    assert packed_names(tmp_path / "exp") == ["train.py"]


@needs_git
def test_git_itself_agrees(folder: Path) -> None:
    write(
        folder,
        {
            ".gitignore": "*.log\n!/a/keep.log\n/x\ny/\n**/z/*.txt\n\\#odd\n \n[ab].py\nq*/\n",
            "a/.gitignore": "!*.log\nb.txt\n", "a/keep.log": "", "a/other.log": "", "a/b.txt": "",
            "c/x.log": "", "x": "", "c/x": "", "c/y/1": "", "y": "", "p/z/1.txt": "", "#odd": "",
            "p/z/1.csv": "", "a.py": "", "c/b.py": "", "ab.py": "", "quick/1": "", "quiet": "",
        },
    )  # fmt: skip
    _git(folder, "init", "-q")
    listed = _git(folder, "ls-files", "--cached", "--others", "--exclude-standard")
    assert packed_names(folder) == sorted(listed.splitlines())


# --- what is refused -----------------------------------------------------------------------------


def test_code_over_the_limit_is_refused_with_its_five_largest_named(folder: Path) -> None:
    write(folder, {f"data/{n}.bin": "x" * n * 100_000 for n in range(1, 8)})
    with pytest.raises(Refused, match=r"has 2\.8 MB; at most 1\.0 MB travel") as caught:
        pack_code(folder, limit=1_000_000)
    assert caught.value.why == (
        "the largest are data/7.bin (0.7 MB), data/6.bin (0.6 MB), data/5.bin (0.5 MB), "
        "data/4.bin (0.4 MB), data/3.bin (0.3 MB)"
    )
    assert ".burstignore" in caught.value.mend
    write(folder, {".burstignore": "data\n"})
    assert packed_names(folder) == [".burstignore"]


def test_a_folder_of_very_many_files_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_FILES", 20)
    write(folder, {f"{n}.txt": "" for n in range(21)})
    with pytest.raises(Refused, match="more than 20 files"):
        pack_code(folder)


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "../../../..", "sub/up/../.."])
def test_a_link_out_of_the_folder_is_refused(folder: Path, target: str) -> None:
    write(folder, {"sub/x": "", "../outside": "secret"})
    (folder / "sub" / "up").symlink_to("..")
    (folder / "link").symlink_to(target)
    with pytest.raises(ConfigError, match="points out of the code folder") as caught:
        pack_code(folder)
    assert str(folder / "link") in caught.value.what
    assert ".burstignore" in caught.value.mend


def test_a_link_out_of_the_folder_may_be_ignored(folder: Path) -> None:
    write(folder, {"train.py": "", ".burstignore": "/data\n"})
    (folder / "data").symlink_to("/mnt/huge")
    assert packed_names(folder) == [".burstignore", "train.py"]


def test_links_inside_stay_links_and_become_relative(folder: Path, tmp_path: Path) -> None:
    write(folder, {"a/x.py": "x"})
    (folder / "b").symlink_to(folder / "a", target_is_directory=True)
    (folder / "c").symlink_to("b/x.py")
    (folder / "dangling").symlink_to("a/later.py")
    (folder / "a" / "loop").symlink_to("loop2")
    (folder / "a" / "loop2").symlink_to("loop")
    unpack_code(pack_code(folder).data, tmp_path / "out")
    out = tmp_path / "out"
    assert os.readlink(out / "b") == "a"
    assert os.readlink(out / "dangling") == "a/later.py"
    assert (out / "c").read_text() == "x"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
@pytest.mark.parametrize("name", ["secret.key", "private"])
def test_code_that_cannot_be_read_is_named(name: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        write(Path(place), {"train.py": "", "secret.key": "", "private/x": ""})
        os.chmod(Path(place) / name, 0o000)
        os.seteuid(65534)
        try:
            with pytest.raises(ConfigError, match=name) as caught:
                pack_code(Path(place))
        finally:
            os.seteuid(0)
        assert caught.value.why == "Permission denied"
        assert caught.value.exit_code is ExitCode.CONFIG
        write(Path(place), {".burstignore": f"{name}\n"})
        os.chmod(Path(place) / name, 0o755)


def test_sockets_and_pipes_are_passed_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"train.py": ""})
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        assert packed_names(tmp_path) == ["train.py"]


def test_a_folder_that_is_not_there_is_not_found(folder: Path) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        pack_code(folder / "nowhere")


# --- where it came from --------------------------------------------------------------------------


@needs_git
def test_the_commit_and_whether_it_was_changed_are_recorded(folder: Path) -> None:
    write(folder, {"exp/train.py": "1", "other/x": "1"})
    assert (pack_code(folder).code.commit, pack_code(folder).code.dirty) == ("", False)
    _git(folder, "init", "-q")
    assert pack_code(folder).code.commit == "", "there is no commit yet"
    _git(folder, "add", ".")
    _git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x")
    commit = _git(folder, "rev-parse", "HEAD").strip()
    code = pack_code(folder / "exp").code
    assert (code.commit, code.dirty) == (commit, False)
    write(folder, {"other/x": "2"})
    assert not pack_code(folder / "exp").code.dirty, "only what travels counts"
    write(folder, {"exp/new.py": ""})
    code = pack_code(folder / "exp").code
    assert (code.commit, code.dirty) == (commit, True)


@pytest.mark.parametrize("git", ["absent", "broken"])
def test_packing_needs_no_git(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, git: str
) -> None:
    write(folder, {"train.py": ""})
    write(tmp_path, {"bin/readme": ""})
    if git == "broken":
        write(tmp_path, {"bin/git": "#!/bin/sh\necho 'fatal: dubious ownership' >&2\nexit 128\n"})
        (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    code = pack_code(folder).code
    assert (code.commit, code.dirty) == ("", False)


# --- to the blobs and back -----------------------------------------------------------------------


def test_code_is_uploaded_once_and_comes_back(folder: Path, tmp_path: Path) -> None:
    write(folder, {"train.py": "print(1)"})
    blobs, packed = FolderBlobs(tmp_path / "blobs"), pack_code(folder)
    assert upload_code(blobs, packed) is True
    assert upload_code(blobs, packed) is False
    assert [info.key for info in blobs.list("")] == [f"code/{packed.digest}.tar.gz"]
    for _ in range(2):
        download_code(blobs, packed.code, tmp_path / "out")
    assert (tmp_path / "out" / "train.py").read_text() == "print(1)"


def test_a_damaged_upload_is_noticed_and_put_right(folder: Path, tmp_path: Path) -> None:
    write(folder, {"train.py": "print(1)"})
    blobs, packed = FolderBlobs(tmp_path / "blobs"), pack_code(folder)
    blobs.put(code_key(packed.digest), packed.data[:-1])
    with pytest.raises(BurstError, match="is damaged"):
        download_code(blobs, packed.code, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert upload_code(blobs, packed) is True
    download_code(blobs, packed.code, tmp_path / "out")


def _git(folder: Path, *arguments: str) -> str:
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(
        ["git", "-C", str(folder), *arguments],
        env=environ, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


def test_what_burst_keeps_is_never_part_of_the_code(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x = 1\n")
    before = pack_code(tmp_path).digest
    workspace = open_workspace({"BURST_HOME": str(tmp_path / "state")}, tmp_path)
    workspace.blobs.put("code/x", b"y")
    workspace.store.close()
    assert pack_code(tmp_path).digest == before
