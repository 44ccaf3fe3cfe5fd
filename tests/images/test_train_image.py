"""The training image's recipe: clean, whole, and careful with what it downloads."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRAIN = ROOT / "images" / "train"
PROGRAMS = Path(sys.executable).parent
INSTALLER = """\
#!/bin/sh
echo "$*" > "$EFA_ROOT/asked"
mkdir -p "$EFA_ROOT/opt/amazon/efa/lib"
touch "$EFA_ROOT/opt/amazon/efa/lib/libfabric.so.1"
"""
PLUGIN = """\
mkdir -p "$EFA_ROOT/opt/amazon/ofi-nccl/lib"
touch "$EFA_ROOT/opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so"
"""


def test_it_is_clean_for_hadolint_and_its_scripts_for_shellcheck() -> None:
    scripts = [TRAIN / "build", TRAIN / "install-efa.sh", ROOT / "images" / "node" / "bake.sh"]
    for program, files in (("hadolint", [TRAIN / "Dockerfile"]), ("shellcheck", scripts)):
        command = [PROGRAMS / program, *files]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_what_it_copies_is_in_the_context_and_nothing_else_is() -> None:
    recipe = (TRAIN / "Dockerfile").read_text()
    copied = {line.split()[1] for line in recipe.splitlines() if line.startswith("COPY ")}
    first, *rest = [
        line
        for line in (TRAIN / "Dockerfile.dockerignore").read_text().splitlines()
        if not line.startswith("#")
    ]
    assert first == "*"
    assert {line.removeprefix("!") for line in rest} == copied
    assert all((ROOT / name).is_file() for name in copied if not name.startswith("dist/"))


def test_all_that_it_installs_is_pinned() -> None:
    recipe = (TRAIN / "Dockerfile").read_text()
    said = dict(re.findall(r"^ARG ([A-Z_0-9]+)=(\S+)$", recipe, re.MULTILINE))
    assert re.fullmatch(r"nvidia/cuda:\d+\.\d+\.\d+-base-ubuntu24\.04", said["BASE"])
    assert re.fullmatch(r"torch==\d+\.\d+\.\d+", said["TORCH"])
    assert re.fullmatch(r"[0-9a-f]{64}", said["EFA_SHA256"])
    installed = recipe.split("-m pip install ")[1:]
    assert len(installed) == 2
    assert all("--constraint" in words.partition(";")[0] for words in installed)


def test_a_step_that_fails_fails_the_build_whatever_builds_it() -> None:
    """`SHELL` is not for every format of images."""
    steps = re.findall(r"^RUN (.*)$", (TRAIN / "Dockerfile").read_text(), re.MULTILINE)
    assert len(steps) > 3
    assert all(step.startswith("set -eu;") or ";" not in step for step in steps)


# --- EFA ----------------------------------------------------------------------------------------


def install(folder: Path, installer: str, sha256: str = "") -> subprocess.CompletedProcess[str]:
    """Run install-efa.sh with an archive that holds `installer`."""
    if shutil.which("curl") is None:
        pytest.skip("there is no curl here")
    inside = folder / "aws-efa-installer"
    (folder / "root" / "etc" / "ld.so.conf.d").mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin" / "ldconfig").symlink_to("/bin/true")
    inside.mkdir()
    (inside / "efa_installer.sh").write_text(installer)
    (inside / "efa_installer.sh").chmod(0o755)
    archive = folder / "aws-efa-installer-1.2.3.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(inside, arcname=inside.name)
    own = hashlib.sha256(archive.read_bytes()).hexdigest()
    return subprocess.run(
        ["sh", str(TRAIN / "install-efa.sh"), "1.2.3", sha256 or own],
        env={
            "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
            "EFA_FROM": f"file://{folder}",
            "EFA_ROOT": str(folder / "root"),
            "TMPDIR": str(folder),
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_efa_comes_without_a_kernel_module_and_the_loader_finds_it(tmp_path: Path) -> None:
    done = install(tmp_path, INSTALLER + PLUGIN)
    assert done.returncode == 0, done.stderr
    asked = (tmp_path / "root" / "asked").read_text().split()
    assert {"-y", "--skip-kmod", "--no-verify"} <= set(asked)
    amazon = tmp_path / "root" / "opt" / "amazon"
    conf = tmp_path / "root" / "etc" / "ld.so.conf.d" / "efa.conf"
    assert conf.read_text().split() == [f"{amazon}/efa/lib", f"{amazon}/ofi-nccl/lib"]
    assert (amazon / "ofi-nccl" / "lib" / "libnccl-net.so").exists(), "what NCCL asks for"


def test_an_archive_with_another_checksum_is_not_run(tmp_path: Path) -> None:
    done = install(tmp_path, INSTALLER + PLUGIN, sha256="0" * 64)
    assert done.returncode == 1
    assert "is not the one with the SHA-256 sum 000" in done.stderr
    assert not (tmp_path / "root" / "asked").exists()


def test_an_installer_without_the_plugin_for_nccl_fails_the_build(tmp_path: Path) -> None:
    done = install(tmp_path, INSTALLER)
    assert done.returncode == 1
    assert "no plugin for NCCL" in done.stderr


# --- building -----------------------------------------------------------------------------------


def build(folder: Path, *words: str, **environ: str) -> tuple[int, list[str], str]:
    """What `images/train/build` asks of the builder; nothing is built."""
    train = folder / "images" / "train"
    train.mkdir(parents=True)
    shutil.copy(TRAIN / "build", train)
    (folder / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    programs = folder / "bin"
    programs.mkdir()
    for name, does in {
        "podman": f'printf "%s\\n" "$@" > "{folder}/asked"',
        "python": f'mkdir dist; touch dist/burst-1.2.3-any.whl; echo "$*" > "{folder}/python"',
        "git": "exit 128",
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{does}\n")
        (programs / name).chmod(0o755)
    done = subprocess.run(
        ["bash", str(train / "build"), *words],
        env={
            "PATH": f"{programs}:/usr/bin:/bin",
            "PYTHON": str(programs / "python"),
            "BUILDER": "podman",
            **environ,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    asked = folder / "asked"
    return done.returncode, asked.read_text().splitlines() if asked.exists() else [], done.stderr


def test_without_a_word_it_builds_the_image_with_cuda_and_efa(tmp_path: Path) -> None:
    status, asked, _ = build(tmp_path)
    assert status == 0
    assert asked[0] == "build"
    assert "burst-train:1.2.3-gpu" in asked
    assert not any(word.startswith(("BASE=", "EFA_VERSION=", "TORCH=")) for word in asked)
    assert "wheel" in (tmp_path / "python").read_text()


def test_for_cpus_it_leaves_both_out_and_passes_on_what_else_is_said(tmp_path: Path) -> None:
    status, asked, _ = build(tmp_path, "cpu", "mine:1", "--build-arg", "BASE=ubuntu:24.04")
    assert status == 0
    assert {"EFA_VERSION=", "mine:1", "VERSION=1.2.3"} <= set(asked)
    assert asked.index("BASE=debian:12-slim") < asked.index("BASE=ubuntu:24.04"), "the last counts"


@pytest.mark.parametrize(
    ("words", "environ", "said"),
    [
        (("tpu",), {}, "neither gpu nor cpu"),
        ((), {"BUILDER": "no-such-builder"}, "neither docker nor podman nor buildah"),
    ],
)
def test_what_it_cannot_do_it_says(
    tmp_path: Path, words: tuple[str, ...], environ: dict[str, str], said: str
) -> None:
    status, asked, error = build(tmp_path, *words, **environ)
    assert status != 0
    assert asked == []
    assert said in error
