"""What is packed is enough, is no more than that, and is the same whenever it is packed."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution, version
from pathlib import Path

import pytest

import burst.core
import burst.harness
import burst.runner
from burst.core.config.load import parse_cluster
from burst.core.errors import BurstError, Unreachable, UsageError
from burst.infra.bundle import build_bundle, fetch
from burst.infra.bundle.build import LARGEST, LARGEST_UNPACKED
from burst.infra.bundle.requirements import _requires, needed
from burst.infra.bundle.target import Target, What, target_of
from burst.infra.settings import Bundle
from burst.runner.rehearsal.account import build_account
from burst.runner.rehearsal.control import Ec2Control
from burst.runner.rehearsal.servers import serve

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
MACHINE = os.uname().machine
CLUSTER = """
cluster: lab
aws: {region: us-east-1}
pools:
  spot: {kind: aws, instance_types: [c5.large], max_nodes: 2, min_nodes: 1}
"""


def build(folder: Path, what: What) -> Bundle:
    return build_bundle(folder, what=what, python=HERE, machine=MACHINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bundles")


@pytest.fixture(scope="module")
def runner(folder: Path) -> Bundle:
    return build(folder, "runner")


@pytest.fixture(scope="module")
def node(folder: Path) -> Bundle:
    return build(folder, "node")


@pytest.fixture(scope="module")
def unpacked(runner: Bundle, folder: Path) -> Path:
    return unpack(runner, folder / "runner")


def unpack(bundle: Bundle, into: Path) -> Path:
    with zipfile.ZipFile(bundle.path) as archive:
        archive.extractall(into)
    return into


def entries(bundle: Bundle) -> Iterator[zipfile.ZipInfo]:
    with zipfile.ZipFile(bundle.path) as archive:
        yield from archive.infolist()


def names(bundle: Bundle) -> set[str]:
    return {each.filename for each in entries(bundle)}


def run_alone(folder: Path, code: str, **environ: str) -> str:
    """What `code` prints in a Python that has its own library and `folder`, and nothing else."""
    whole = f"import sys; sys.path.insert(0, {str(folder)!r})\n{code}"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", whole],
        env={"PATH": os.environ["PATH"], **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


FOREIGN = """
import os
own = (sys.path[0] + os.sep, os.path.dirname(os.__file__) + os.sep)
files = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
print(sorted(
    name for name, file in files.items()
    if file and (not file.startswith(own) or "site-packages" in file)
))
"""


def test_the_same_burst_gives_the_same_bytes(tmp_path: Path) -> None:
    first, again = build(tmp_path / "1", "runner"), build(tmp_path / "2", "runner")
    assert again.digest == first.digest
    assert again.path.read_bytes() == first.path.read_bytes()


def test_what_was_packed_already_is_not_packed_again(tmp_path: Path) -> None:
    first = build(tmp_path, "runner")
    before = first.path.stat()
    assert build(tmp_path, "runner") == first
    after = first.path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_no_entry_tells_when_or_by_whom_it_was_packed(runner: Bundle) -> None:
    found = list(entries(runner))
    assert [each.filename for each in found] == sorted(each.filename for each in found)
    assert {each.date_time for each in found} == {(1980, 1, 1, 0, 0, 0)}
    assert {each.external_attr >> 16 for each in found} == {0o100644, 0o100755}


def test_the_handler_needs_nothing_but_the_bundle(unpacked: Path) -> None:
    code = "from burst.runner.lambda_handler import handler; print(callable(handler))"
    assert run_alone(unpacked, code) == "True\n"
    assert run_alone(unpacked, f"import burst.runner.lambda_handler\n{FOREIGN}") == "[]\n"


def test_the_bundle_alone_starts_a_node(unpacked: Path, tmp_path: Path) -> None:
    """One call of the handler, with all that it imports: store, blobs, EC2."""
    config = parse_cluster(CLUSTER, "burst.yaml")
    with serve(tmp_path / "servers", boot=0.05) as servers:
        account = build_account(config, CLUSTER, servers.environ)
        environ = {
            **servers.environ,
            "BURST_STORE": account.store,
            "BURST_BLOBS": account.blobs,
            "BURST_CLUSTER": "blobs:cluster/burst.yaml",
        }
        code = (
            "from burst.runner import lambda_handler\n"
            f"lambda_handler._HOME = {str(tmp_path / 'home')!r}\n"
            "class Context:\n"
            "    def get_remaining_time_in_millis(self): return 11_000\n"
            "import json; print(json.dumps(lambda_handler.handler({}, Context())))\n"
        )
        said, foreign = run_alone(unpacked, code + FOREIGN, **environ).splitlines()[-2:]
        machines = Ec2Control(servers.ec2).machines()
    assert json.loads(said)["passes"] >= 1
    assert foreign == "[]"
    assert [each.type for each in machines] == ["c5.large"]


def test_every_service_that_the_runner_calls_is_described(runner: Bundle) -> None:
    called = set()
    for room in (burst.core, burst.runner):
        for path in Path(room.__path__[0]).rglob("*.py"):
            if not {"rehearsal", "testing"} & set(path.parts):
                called |= services_in(path)
    assert {"dynamodb", "s3", "ec2"} <= called
    found = {name.split("/")[2] for name in names(runner) if name.startswith("botocore/data/")}
    assert called <= found


def services_in(path: Path) -> set[str]:
    """What is named in calls of `client`, as in `Session().client("ec2")`."""
    found = set()
    for each in ast.walk(ast.parse(path.read_text())):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute):
            first = each.args[0] if each.args else None
            if each.func.attr == "client" and isinstance(first, ast.Constant):
                found.add(str(first.value))
    return found


def test_a_function_may_be_that_large(runner: Bundle) -> None:
    assert runner.path.stat().st_size < LARGEST
    assert sum(each.file_size for each in entries(runner)) < LARGEST_UNPACKED


def test_what_only_a_person_training_or_a_test_needs_is_left_out(runner: Bundle) -> None:
    tops = {name.partition("/")[0] for name in names(runner)}
    assert not tops & {"click", "rich", "s3fs", "torch", "numpy", "pulumi", "moto", "pytest"}
    rooms = {name.split("/")[1] for name in names(runner) if name.startswith("burst/")}
    assert rooms == {"core", "runner"}
    assert not [name for name in names(runner) if re.search(r"testing/|/rehearsal/|\.pyc$", name)]


def test_a_node_has_all_of_agent_and_harness_and_what_they_need(
    node: Bundle, tmp_path: Path
) -> None:
    wanted = set()
    for room in (burst.core, burst.runner, burst.harness):
        root = Path(room.__path__[0])
        for path in root.rglob("*.py"):
            name = f"burst/{room.__name__.rpartition('.')[2]}/{path.relative_to(root).as_posix()}"
            if not re.search(r"/testing/|burst/runner/rehearsal/", name):
                wanted.add(name)
    assert len(wanted) > 300
    assert wanted <= names(node)
    code = (
        "import burst.runner.node.main, burst.runner.agent.serving.main, burst.harness, s3fs\n"
        "from boto3.session import Session\n"
        "print(len(Session().get_available_services()) > 300)\n"
        "from importlib.metadata import version; print(version('burst'))\n"
    )
    tree = unpack(node, tmp_path / "node")
    *said, foreign = run_alone(tree, code + FOREIGN).splitlines()
    assert said == ["True", version("burst")]
    assert foreign == "[]"


def test_a_node_keeps_the_torch_and_numpy_of_its_image(node: Bundle) -> None:
    tops = {name.partition("/")[0] for name in names(node)}
    assert not tops & {"torch", "numpy", "pyarrow", "transformers", "datasets", "safetensors"}


@pytest.mark.parametrize(
    ("tags", "glibc", "runs"),
    [
        (["any"], 17, True),
        (["manylinux_2_17_x86_64", "manylinux2014_x86_64"], 17, True),
        (["manylinux2014_x86_64"], 17, True),
        (["manylinux_2_28_x86_64"], 17, False),
        (["manylinux_2_28_x86_64"], 28, True),
        (["manylinux_2_17_aarch64"], 28, False),
        (["linux_x86_64"], 28, False),
        (["musllinux_1_2_x86_64"], 28, False),
        (["macosx_11_0_arm64"], 28, False),
        ([], 28, False),
    ],
)
def test_a_wheel_runs_where_its_tag_says(tags: list[str], glibc: int, runs: bool) -> None:
    assert Target("3.12", "x86_64", glibc).runs(tags) is runs


def test_older_functions_have_an_older_glibc() -> None:
    assert target_of("runner", "3.11", "x86_64").glibc == 17
    assert target_of("runner", "3.12", "x86_64").glibc == 28
    assert target_of("node", "3.11", "x86_64").glibc == 28


def test_what_is_installed_is_packed_for_no_other_machine() -> None:
    assert Target(HERE, MACHINE, 28).is_here()
    assert not Target("3.99", MACHINE, 28).is_here()
    other = "aarch64" if MACHINE == "x86_64" else "x86_64"
    assert not Target(HERE, other, 28).is_here()


@pytest.mark.parametrize(("python", "machine"), [("python3", "x86_64"), ("3.12", "sparc")])
def test_there_must_be_such_a_machine(tmp_path: Path, python: str, machine: str) -> None:
    with pytest.raises(UsageError):
        build_bundle(tmp_path, what="runner", python=python, machine=machine)


def test_all_is_pinned_to_what_is_installed() -> None:
    found = needed("runner", target_of("runner", HERE, MACHINE))
    assert {"boto3", "botocore", "pydantic", "pydantic-core", "pyyaml"} <= set(found)
    assert {name: each.version for name, each in found.items()} == {
        name: version(name) for name in found
    }


def test_what_another_python_needs_follows_from_its_markers() -> None:
    def of_aiohttp(python: str) -> set[str]:
        target = Target(python, "x86_64", 28)
        return {each.name for each in _requires(distribution("aiohttp"), frozenset(), target)}

    assert of_aiohttp("3.10") - of_aiohttp("3.11") == {"async-timeout"}


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index of one wheel, for x86_64 and Python 3.12."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    info = "thing-1.0.dist-info"
    files = {
        "thing/__init__.py": "",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\n"
        "Tag: cp312-cp312-manylinux_2_17_x86_64\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    wheel = folder / "thing-1.0-cp312-cp312-manylinux_2_17_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(name, text)
    for tool in ("UV", "PIP"):
        monkeypatch.setenv(f"{tool}_NO_INDEX", "1")
        monkeypatch.setenv(f"{tool}_FIND_LINKS", str(folder))
    return folder


@pytest.fixture(params=["uv", "pip"])
def tool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name = str(request.param)
    if name == "pip":
        monkeypatch.setattr(fetch, "_uv", lambda: None)
    elif fetch._uv() is None:
        pytest.skip("uv is not here")
    return name


@pytest.mark.usefixtures("tool", "wheels")
def test_packages_for_another_machine_are_fetched_once(tmp_path: Path) -> None:
    target = Target("3.12", "x86_64", 28)
    found = fetch.fetch(["thing==1.0"], target, tmp_path / "bundles")
    assert (found / "thing/__init__.py").is_file()
    written = (found / "thing/__init__.py").stat().st_mtime_ns
    assert fetch.fetch(["thing==1.0"], target, tmp_path / "bundles") == found
    assert (found / "thing/__init__.py").stat().st_mtime_ns == written


@pytest.mark.usefixtures("tool", "wheels")
@pytest.mark.parametrize(
    "target", [Target("3.12", "aarch64", 28), Target("3.13", "x86_64", 28)], ids=str
)
def test_a_wheel_that_there_is_not_is_told_and_nothing_is_left(
    tmp_path: Path, target: Target
) -> None:
    with pytest.raises(Unreachable) as caught:
        fetch.fetch(["thing==1.0"], target, tmp_path / "bundles")
    assert "thing" in caught.value.why
    assert target.python in caught.value.what
    assert list((tmp_path / "bundles").iterdir()) == []


def test_without_an_installer_it_is_said_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "_uv", lambda: None)
    monkeypatch.setattr(fetch, "_has_pip", lambda: False)
    with pytest.raises(BurstError) as caught:
        fetch.fetch(["thing==1.0"], Target("3.12", "x86_64", 28), tmp_path)
    assert "ensurepip" in caught.value.mend
