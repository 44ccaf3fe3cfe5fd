"""The training image's recipe: clean, whole, and careful with what it downloads."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
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


BUILDS = """\
[ "$1" != version ] || exit 0
printf "%s\\n" "$@" > "{folder}/asked"
while [ $# -gt 1 ]; do shift; done
cd "$1" && find . ! -type d > "{folder}/context"
"""
WHEEL = """\
echo "$*" > "{folder}/python"
while [ "$1" != --wheel-dir ]; do shift; done
mkdir -p "$2"; touch "$2/burst-1.2.3-py3-none-any.whl"
"""
NO_DAEMON = """\
echo "Client: 29.1"
echo "Cannot connect to the Docker daemon at unix:///var/run/docker.sock" >&2; exit 1
"""
NEEDED = {"Dockerfile", "constraints.txt", "images/train/install-efa.sh"}


@dataclass
class Built:
    """What came of a build that builds nothing."""

    status: int
    asked: list[str]
    """What was asked of the builder."""
    context: set[str]
    """The files that the builder was given."""
    said: str


def build(
    folder: Path, *words: str, shell: str = "sh", programs: dict[str, str], **environ: str
) -> Built:
    """Run `images/train/build` in a copy with much that is no part of the image."""
    others = ("dist/burst-1.0.0-py3-none-any.whl", ".git/config", ".venv/bin/python", "notes.txt")
    for name in (*NEEDED - {"Dockerfile"}, *others):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{name}\n")
    for name in ("build", "Dockerfile"):
        shutil.copy(TRAIN / name, folder / "images" / "train")
    (folder / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    bin = folder / "bin"
    bin.mkdir()
    for name in ("cp", "dirname", "find", "mkdir", "mktemp", "rm", "sed", "tail", "touch"):
        found = shutil.which(name)
        assert found, name
        (bin / name).symlink_to(found)
    for name, does in {"python": WHEEL, "git": "exit 128", **programs}.items():
        (bin / name).write_text(f"#!/bin/sh\n{does.replace('{folder}', str(folder))}\n")
        (bin / name).chmod(0o755)
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"there is no {shell} here")
    before = {path for path in folder.rglob("*") if bin not in path.parents}
    done = subprocess.run(
        [path, str(folder / "images" / "train" / "build"), *words],
        env={"PATH": str(bin), "PYTHON": str(bin / "python"), **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = {
        name: (folder / name).read_text().splitlines() if (folder / name).exists() else []
        for name in ("asked", "context")
    }
    after = {path for path in folder.rglob("*") if bin not in path.parents}
    noted = {folder / name for name in ("asked", "context", "python")}
    assert after - noted == before, "it leaves everything as it was"
    context = {line.removeprefix("./") for line in lines["context"]}
    return Built(done.returncode, lines["asked"], context, done.stderr)


def test_the_builder_gets_what_the_image_is_made_of_and_nothing_else(tmp_path: Path) -> None:
    recipe = (TRAIN / "Dockerfile").read_text()
    copied = {line.split()[1] for line in recipe.splitlines() if line.startswith("COPY ")}
    built = build(tmp_path, programs={"docker": BUILDS})
    [wheel] = built.context - NEEDED
    assert wheel == "dist/burst-1.2.3-py3-none-any.whl", "and not the one of an earlier version"
    assert built.context - {wheel, "Dockerfile"} == copied - {"dist/burst-*.whl"}
    assert "dist/burst-*.whl" in copied
    assert all((ROOT / name).is_file() for name in copied if not name.startswith("dist/"))


@pytest.mark.parametrize("kind", ["gpu", "cpu"])
@pytest.mark.parametrize("shell", ["sh", "bash", "dash"])
def test_it_needs_no_certain_shell(tmp_path: Path, kind: str, shell: str) -> None:
    """A Mac's bash is of 2007, and takes an empty array for one that was never set."""
    built = build(tmp_path, kind, shell=shell, programs={"docker": BUILDS})
    assert (built.status, built.said) == (0, "")
    script = (TRAIN / "build").read_text()
    assert script.startswith("#!/bin/sh\n")
    assert "=(" not in script.replace("=$(", "")


@pytest.mark.parametrize(
    ("programs", "taken"),
    [
        ({"docker": BUILDS, "podman": BUILDS.replace("asked", "wrong")}, "docker"),
        ({"docker": NO_DAEMON, "podman": BUILDS}, "podman"),
        ({"docker": NO_DAEMON, "podman": NO_DAEMON, "buildah": BUILDS}, "buildah"),
        ({"buildah": BUILDS}, "buildah"),
    ],
)
def test_the_first_builder_that_can_build_is_taken(
    tmp_path: Path, programs: dict[str, str], taken: str
) -> None:
    built = build(tmp_path, programs=programs)
    assert built.status == 0
    assert built.asked[0] == "build"
    refused = [name for name, does in programs.items() if does == NO_DAEMON]
    assert taken not in refused
    said = built.said.splitlines()
    assert len(said) == len(refused)
    for name, line in zip(refused, said, strict=True):
        assert line.startswith(f"{name} is here and cannot build: Cannot connect to the Docker")


def test_a_build_that_fails_leaves_nothing_and_names_no_image(tmp_path: Path) -> None:
    built = build(tmp_path, programs={"docker": '[ "$1" = version ]'})
    assert built.status == 1


def test_without_a_word_it_builds_the_image_with_cuda_and_efa(tmp_path: Path) -> None:
    built = build(tmp_path, programs={"podman": BUILDS})
    assert built.status == 0
    assert built.asked[0] == "build"
    assert "burst-train:1.2.3-gpu" in built.asked
    assert not any(word.startswith(("BASE=", "EFA_VERSION=", "TORCH=")) for word in built.asked)
    assert "wheel" in (tmp_path / "python").read_text()


def test_for_cpus_it_leaves_both_out_and_passes_on_what_else_is_said(tmp_path: Path) -> None:
    words = ("cpu", "mine:1", "--build-arg", "BASE=ubuntu:24.04")
    built = build(tmp_path, *words, programs={"podman": BUILDS})
    assert built.status == 0
    asked = built.asked
    assert {"EFA_VERSION=", "mine:1", "VERSION=1.2.3"} <= set(asked)
    assert asked.index("BASE=debian:12-slim") < asked.index("BASE=ubuntu:24.04"), "the last counts"


@pytest.mark.parametrize(
    ("words", "environ", "programs", "said"),
    [
        (("tpu",), {}, {"podman": BUILDS}, "neither gpu nor cpu"),
        ((), {"BUILDER": "no-such-builder"}, {"podman": BUILDS}, "neither docker nor podman nor"),
        ((), {}, {}, "neither docker nor podman nor buildah that can build"),
        ((), {}, {"docker": NO_DAEMON}, "Cannot connect to the Docker daemon"),
        ((), {"BUILDER": "docker"}, {"docker": NO_DAEMON, "podman": BUILDS}, "Cannot connect"),
    ],
)
def test_what_it_cannot_do_it_says(
    tmp_path: Path,
    words: tuple[str, ...],
    environ: dict[str, str],
    programs: dict[str, str],
    said: str,
) -> None:
    built = build(tmp_path, *words, programs=programs, **environ)
    assert built.status != 0
    assert built.asked == []
    assert said in built.said
