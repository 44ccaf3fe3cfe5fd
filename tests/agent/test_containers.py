"""Trials in images: what a runtime is told, and real attempts through one that runs each command
with exactly the variables and the folder that it was given."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from burst.core.config.experiment import Environment, ExperimentConfig, Image
from burst.core.launch import LaunchSpec, Tier
from burst.core.logs import LAUNCHER, read_logs
from burst.core.model import DrainCause, Exit, ExitKind, Node, Slot
from burst.core.states import AllocationState
from burst.core.workspace import open_workspace
from burst.runner.agent.running.containers import (
    Container,
    Mount,
    container_for,
    image_for,
    mounts_for,
    outermost,
    passed,
)
from burst.runner.agent.running.environment import CannotPrepare
from burst.runner.agent.site import Site
from tests.agent.conftest import Cluster, Running

Start = Callable[..., Running]

RUNTIME = f"""#!{sys.executable}
import json, os, sys
here = os.path.dirname(os.path.abspath(__file__))
words = sys.argv[1:]
with open(here + "/calls", "a") as calls:
    calls.write(json.dumps(words) + "\\n")
have = here + "/images"
if words[:2] == ["image", "inspect"]:
    sys.exit(0 if os.path.exists(have) else 1)
if words[0] == "pull":
    if words[-1] == "nobody/has:it":
        sys.exit("pull access denied for nobody/has")
    open(have, "w").close()
    sys.exit(0)
if words[0] == "rm":
    sys.exit(0)
assert words[0] == "run", words
flags, environ, folder, words = ("--rm", "--init"), {{}}, "/", words[1:]
while words[0].startswith("--"):
    option = words.pop(0)
    if option in flags:
        continue
    value = words.pop(0)
    if option == "--env":
        name, given, text = value.partition("=")
        environ[name] = text if given else os.environ[name]
    elif option == "--workdir":
        folder = value
    elif option == "--mount":
        source = dict(part.split("=", 1) for part in value.split(",") if "=" in part)["source"]
        assert os.path.exists(source), source
image, *command = words
environ["PATH"] = (here + "/bare" if image == "bare" else {str(Path(sys.executable).parent)!r}) + \
    ":/usr/bin:/bin"
environ["IMAGE"] = image
os.chdir(folder)
os.execvpe(command[0], command, environ)
"""


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path with a `docker`; its `calls` are what that was asked."""
    folder = tmp_path / "runtime"
    _program(folder / "docker", RUNTIME)
    _program(folder / "bare" / "python", f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def _calls(runtime: Path) -> list[list[str]]:
    return [json.loads(line) for line in (runtime / "calls").read_text().splitlines()]


def _lines(cluster: Cluster, trial: str, rank: int | None = None) -> list[str]:
    return [line.text for line in read_logs(cluster.ws.blobs, trial, rank=rank)]


# --- attempts -----------------------------------------------------------------------------------


def test_a_trial_runs_in_its_image(
    cluster: Cluster, start: Start, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN_HERE", "s3cret-token")
    node = cluster.node()
    do = [
        *(("variable", name) for name in ("IMAGE", "COLOUR", "TOKEN", "VIRTUAL_ENV")),
        ("outcome", "completed"),
    ]
    allocation = cluster.assign(
        node,
        do,
        environment={
            "image": {"cpu": "team/train:1"},
            "variables": {"COLOUR": "red"},
            "secrets": {"TOKEN": "env:TOKEN_HERE"},
            "setup": ['echo "set up in $IMAGE"'],
        },
    )
    start(node)
    released = cluster.released(allocation.id)
    assert released.exit == Exit(kind=ExitKind.COMPLETED), _lines(cluster, released.trial)
    assert _lines(cluster, released.trial, 0) == [
        "IMAGE=team/train:1",
        "COLOUR=red",
        "TOKEN=***",
        "VIRTUAL_ENV=None",
    ]
    assert "set up in team/train:1" in _lines(cluster, released.trial, LAUNCHER)
    assert "s3cret-token" not in (runtime / "calls").read_text()
    calls = _calls(runtime)
    assert [call[0] for call in calls] == ["image", "pull", "run", "run", "run"]


def test_an_image_that_is_here_is_not_fetched(
    cluster: Cluster, start: Start, runtime: Path
) -> None:
    (runtime / "images").touch()
    node = cluster.node()
    allocation = cluster.assign(
        node, [("outcome", "completed")], environment={"image": {"cpu": "team/train:1"}}
    )
    start(node)
    assert cluster.released(allocation.id).exit == Exit(kind=ExitKind.COMPLETED)
    assert [call[0] for call in _calls(runtime)] == ["image", "run", "run"]


def test_a_trial_in_a_container_hears_that_it_has_to_leave(
    cluster: Cluster, start: Start, runtime: Path
) -> None:
    node = cluster.node()
    allocation = cluster.assign(
        node, [("say", "x"), ("until_asked", 60)], environment={"image": {"cpu": "team/train:1"}}
    )
    start(node)
    cluster.reaches(allocation.id, AllocationState.RUNNING)
    cluster.drain(allocation.id, DrainCause.PAUSE)
    assert cluster.released(allocation.id).exit == Exit(kind=ExitKind.DRAINED)


def test_a_trial_in_a_container_that_does_not_hear_is_ended(
    cluster: Cluster, start: Start, runtime: Path
) -> None:
    node = cluster.node()
    allocation = cluster.assign(
        node,
        [("deaf", None), ("say", "x"), ("sleep", 600)],
        environment={"image": {"cpu": "team/train:1"}},
    )
    start(node)
    cluster.reaches(allocation.id, AllocationState.RUNNING)
    cluster.drain(allocation.id, DrainCause.KILL)
    exit = cluster.released(allocation.id).exit
    assert exit is not None
    assert exit.kind is ExitKind.DRAINED


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("nobody/has:it", "pull access denied for nobody/has"),
        ("bare", f"build one with burst {metadata.version('burst')}"),
    ],
)
def test_an_image_that_cannot_run_a_trial_is_told_plainly(
    cluster: Cluster, start: Start, runtime: Path, image: str, said: str
) -> None:
    node = cluster.node()
    allocation = cluster.assign(
        node, [("outcome", "completed")], environment={"image": {"cpu": image}}
    )
    start(node)
    exit = cluster.released(allocation.id).exit
    assert exit is not None
    assert exit.kind is ExitKind.CRASHED
    assert exit.failure is not None
    assert said in exit.failure.traceback


# --- what is chosen -----------------------------------------------------------------------------

CPU, GPU = Slot(index=0), Slot(index=3, device="cuda")


def _config(**changes: Any) -> ExperimentConfig:
    return ExperimentConfig.model_validate(
        {
            "name": "x",
            "entrypoint": ["python", "train.py"],
            "searcher": {"name": "single"},
            "reproducibility": {"experiment_seed": 1},
            "environment": {"image": {"cpu": "c", "cuda": "g"}, **changes.pop("environment", {})},
            **changes,
        }
    )


def _site(tmp_path: Path, path: Path, **environ: str) -> Site:
    node = Node(id="node-00000000001", pool="local", expected_slots=1, requested=1.0)
    environment = {"PATH": str(path), "HOME": str(tmp_path), **environ}
    return Site(open_workspace(cwd=tmp_path), node, environ=environment)


def _spec(tmp_path: Path, *tiers: str) -> LaunchSpec:
    return LaunchSpec(
        folder=str(tmp_path / "burst-home" / "nodes" / "n" / "a"),
        store_url=f"sqlite://{tmp_path}/burst-home/store.db",
        blobs_url=f"file://{tmp_path}/blobs",
        checkpoints_url="s3://bucket",
        tiers=tuple(Tier(url=url) for url in tiers),
        experiment="e",
        trial="t",
        allocation="alloc-00000000001",
        node="n",
        attempt=1,
        token=1,
        hparams={},
        seed=1,
        config={},
    )


def test_the_image_is_the_one_for_what_the_attempt_runs_on() -> None:
    environment = _config().environment
    assert image_for(environment, [GPU]) == "g"
    assert image_for(environment, [CPU]) == "c"
    assert image_for(Environment(image=Image(cuda="g")), [CPU]) is None
    assert image_for(Environment(), [GPU]) is None


@pytest.mark.parametrize(
    ("here", "chosen"),
    [(("docker", "podman"), "docker"), (("podman",), "podman"), (("docker",), "docker")],
)
def test_docker_goes_before_podman(tmp_path: Path, here: tuple[str, ...], chosen: str) -> None:
    for name in here:
        _program(tmp_path / "bin" / name, "#!/bin/sh\n")
    site = _site(tmp_path, tmp_path / "bin")
    found = container_for(site, _config(), [CPU], _spec(tmp_path))
    assert found is not None
    assert Path(found.runtime).name == chosen


def test_without_a_runtime_an_image_is_refused_and_both_are_named(tmp_path: Path) -> None:
    site = _site(tmp_path, tmp_path / "none")
    with pytest.raises(CannotPrepare, match="the image c cannot be run") as raised:
        container_for(site, _config(), [CPU], _spec(tmp_path))
    assert "neither docker nor podman" in raised.value.why


def test_without_a_runtime_a_trial_that_says_what_else_will_do_gets_that(tmp_path: Path) -> None:
    site = _site(tmp_path, tmp_path / "none")
    config = _config(environment={"python": {"requirements": ["einops"]}})
    assert container_for(site, config, [CPU], _spec(tmp_path)) is None


def test_a_trial_without_an_image_needs_no_runtime(tmp_path: Path) -> None:
    site = _site(tmp_path, tmp_path / "none")
    config = _config().model_copy(update={"environment": Environment()})
    assert container_for(site, config, [CPU], _spec(tmp_path)) is None


# --- what the runtime is told -------------------------------------------------------------------


def _container(**changes: Any) -> Container:
    fields = {
        "runtime": "/usr/bin/docker",
        "image": "team/train:1",
        "name": "burst-a",
        "home": Path("/h/home"),
        "cache": Path("/h/cache"),
        **changes,
    }
    return Container(**fields)


def _options(container: Container, **environ: str) -> list[tuple[str, str]]:
    program, run, *words = container.wrap(("python", "-m", "x"), environ, Path("/h/code"))
    assert (program, run) == (container.runtime, "run")
    assert words[-4:] == ["team/train:1", "python", "-m", "x"]
    rest = [word for word in words[:-4] if word not in ("--rm", "--init")]
    return list(zip(rest[::2], rest[1::2], strict=True))


def test_a_container_shares_network_and_memory_with_its_node() -> None:
    options = _options(_container())
    assert ("--network", "host") in options
    assert ("--ipc", "host") in options
    assert ("--workdir", "/h/code") in options
    assert ("--pull", "never") in options


def test_variables_go_in_by_name_and_those_of_the_nodes_own_programs_do_not() -> None:
    options = _options(_container(), TOKEN="secret", PATH="/bin", LD_PRELOAD="x", HOME="/root")
    names = [value for option, value in options if option == "--env"]
    assert names == ["TOKEN", "HOME=/h/home", "XDG_CACHE_HOME=/h/cache"]


def test_a_variable_that_the_experiment_sets_goes_in_whatever_its_name() -> None:
    assert passed(["PATH", "LD_LIBRARY_PATH", "A"], own=["LD_LIBRARY_PATH"]) == [
        "LD_LIBRARY_PATH",
        "A",
    ]


@pytest.mark.parametrize(
    ("runtime", "option"),
    [
        ("/usr/bin/docker", ("--gpus", "all")),
        ("/usr/bin/podman", ("--device", "nvidia.com/gpu=all")),
    ],
)
def test_gpus_are_given_in_the_runtimes_own_way(runtime: str, option: tuple[str, str]) -> None:
    assert option in _options(_container(runtime=runtime, gpus=True))
    assert option not in _options(_container(runtime=runtime))


def test_what_runs_inside_is_the_nodes_own_user() -> None:
    assert ("--user", "7:8") in _options(_container(user="7:8"))
    assert ("--userns", "keep-id") not in _options(_container(user="7:8"))
    podman = _container(user="7:8", runtime="/usr/bin/podman")
    assert ("--userns", "keep-id") in _options(podman)


def test_fabric_devices_go_in() -> None:
    assert ("--device", "/dev/infiniband/uverbs0") in _options(
        _container(devices=("/dev/infiniband/uverbs0",))
    )


def test_mounts_say_whether_they_may_be_written() -> None:
    options = _options(_container(mounts=(Mount.same("/a"), Mount("/b", "/c", read_only=True))))
    assert [value for option, value in options if option == "--mount"] == [
        "type=bind,source=/a,target=/a",
        "type=bind,source=/b,target=/c,readonly",
    ]


def test_what_the_ranks_need_of_the_node_is_mounted_at_its_own_path_once(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    token = str(tmp_path / "token")
    site = _site(tmp_path, tmp_path, AWS_WEB_IDENTITY_TOKEN_FILE=token)
    spec = _spec(tmp_path, "s3://bucket/x", f"file://{tmp_path}/tier")
    home = spec.path / "home"
    assert mounts_for(site, spec, home) == (
        Mount.same(tmp_path / "blobs"),
        Mount.same(tmp_path / "burst-home"),
        Mount.same(tmp_path / "tier"),
        Mount.same(token),
        Mount(str(tmp_path / ".aws"), str(home / ".aws"), read_only=True),
    )


def test_the_experiments_own_mounts_are_there(tmp_path: Path) -> None:
    _program(tmp_path / "bin" / "docker", "#!/bin/sh\n")
    site = _site(tmp_path, tmp_path / "bin")
    mounts = [{"host_path": "/data", "container_path": "/in", "read_only": True}]
    found = container_for(site, _config(bind_mounts=mounts), [CPU], _spec(tmp_path))
    assert found is not None
    assert found.mounts[-1] == Mount("/data", "/in", read_only=True)


def test_of_nested_folders_the_outermost_is_mounted() -> None:
    found = outermost([Path("/a/b"), Path("/a"), Path("/ab"), Path("/a/b/c"), Path("/a")])
    assert found == [Path("/a"), Path("/ab")]
