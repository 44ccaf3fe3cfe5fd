"""Running a trial in its own image: the same harness, the same folders and the same control.

What burst mounts keeps its path, so that every path in `spec.json` and in the environment means
the same inside. The network is the node's, and so is shared memory, which data loaders need.
Processes inside carry their allocation's mark too, so a sweep of the node finds and ends them.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Protocol

from burst.core.config.experiment import Environment, ExperimentConfig
from burst.core.launch import LaunchSpec
from burst.core.model import Slot
from burst.runner.agent.running.environment import CannotPrepare
from burst.runner.agent.site import Site

RUNTIMES = ("docker", "podman")
PYTHON = "python"
"""The interpreter of an image."""
_HOSTS_OWN = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "HOSTNAME", "TMPDIR", "SHLVL"),
    *("VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "_"),
)
_HOSTS_OWN_KINDS = ("LD_", "CONDA_", "XDG_", "DBUS_", "SSH_", "DOCKER_", "SYSTEMD_")
"""What names the node's own programs and folders, and would mislead those of an image."""
_AWS_FILES = ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE")
_FABRIC = Path("/dev/infiniband")
_END_WITHIN_S = 30.0


class Helper(Protocol):
    """Who prepares: `burst.runner.agent.preparing.preparation.Preparation`."""

    def run(
        self, command: Sequence[str], folder: Path, container: Container | None = None
    ) -> None:
        """Run a command in a folder; raises CannotPrepare if it fails."""
        ...


@dataclass(frozen=True)
class Mount:
    """A folder or file of the node's that is there inside too."""

    source: str
    target: str
    read_only: bool = False

    @classmethod
    def same(cls, path: str | Path) -> Mount:
        return cls(str(path), str(path))

    def __str__(self) -> str:
        """As `--mount` takes it."""
        end = ",readonly" if self.read_only else ""
        return f"type=bind,source={self.source},target={self.target}{end}"


@dataclass(frozen=True)
class Container:
    """How the processes of one attempt are run in an image."""

    runtime: str
    """The program: `docker` or `podman`, with its path."""
    image: str
    name: str
    home: Path
    """HOME inside: a folder of the attempt's own."""
    cache: Path
    """XDG_CACHE_HOME inside: what is downloaded there outlives the attempt."""
    mounts: tuple[Mount, ...] = ()
    own: frozenset[str] = frozenset()
    """Variables that the experiment itself sets, which always go inside."""
    gpus: bool = False
    devices: tuple[str, ...] = ()
    user: str = ""
    """`uid:gid`; empty is the image's own."""

    def wrap(
        self, command: Sequence[str], environ: Mapping[str, str], folder: Path
    ) -> tuple[str, ...]:
        """What the node runs so that `command` runs inside. Pure.

        Variables are passed by name, so that no secret is on a command line.
        """
        podman = Path(self.runtime).name == "podman"
        options = ["--rm", "--init", "--pull", "never", "--name", self.name]
        options += ["--network", "host", "--ipc", "host", "--workdir", str(folder)]
        options += ["--ulimit", "memlock=-1", "--ulimit", "stack=67108864"]
        if self.user:
            options += ["--user", self.user]
            options += ["--userns", "keep-id"] if podman else []
        if self.gpus:
            # All of them: CUDA_VISIBLE_DEVICES chooses, by the same numbers as outside.
            options += ["--device", "nvidia.com/gpu=all"] if podman else ["--gpus", "all"]
        for device in self.devices:
            options += ["--device", device]
        for mount in self.mounts:
            options += ["--mount", str(mount)]
        for name in sorted(passed(environ, self.own)):
            options += ["--env", name]
        options += ["--env", f"HOME={self.home}", "--env", f"XDG_CACHE_HOME={self.cache}"]
        return (self.runtime, "run", *options, self.image, *command)

    def end(self) -> None:
        """Remove it with all that runs in it, whatever became of who started it. Idempotent."""
        command = [self.runtime, "rm", "--force", self.name]
        try:
            subprocess.run(command, capture_output=True, timeout=_END_WITHIN_S, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return  # a runtime that does not answer ends nothing


def passed(environ: Iterable[str], own: Iterable[str] = ()) -> list[str]:
    """The variables that go inside: all but those that mean something of the node's."""
    own = set(own)
    return [
        name
        for name in environ
        if name in own or not (name in _HOSTS_OWN or name.startswith(_HOSTS_OWN_KINDS))
    ]


def image_for(environment: Environment, slots: Sequence[Slot]) -> str | None:
    """The image that the experiment names for what the attempt runs on; None if it names none."""
    if environment.image is None:
        return None
    on_gpus = any(slot.device == "cuda" for slot in slots)
    return environment.image.cuda if on_gpus else environment.image.cpu


def find_runtime(environ: Mapping[str, str]) -> str | None:
    """The first runtime on the path."""
    found = (shutil.which(name, path=environ.get("PATH")) for name in RUNTIMES)
    return next((path for path in found if path), None)


def container_for(
    site: Site, config: ExperimentConfig, slots: Sequence[Slot], spec: LaunchSpec
) -> Container | None:
    """How to run an attempt in its image; None where it runs on the node itself: it names none, or
    it says with `environment.python` what to do without a runtime.

    Raises:
        CannotPrepare: it names an image, and nothing here could run that.
    """
    image = image_for(config.environment, slots)
    if image is None:
        return None
    runtime = find_runtime(site.environ)
    if runtime is None and config.environment.python is not None:
        return None
    if runtime is None:
        raise CannotPrepare(
            f"the image {image} cannot be run on this node",
            why=f"environment.image asks for it, and there is neither {' nor '.join(RUNTIMES)}",
            mend="install one of them, write environment.python instead, or drop the image",
        )
    home, cache = spec.path / "home", site.cache / "containers"
    own = (
        Mount(each.host_path, each.container_path, each.read_only) for each in config.bind_mounts
    )
    return Container(
        runtime=runtime,
        image=image,
        name=f"burst-{spec.allocation}" + (f"-{spec.node_rank}" if spec.nodes > 1 else ""),
        home=home,
        cache=cache,
        mounts=(*mounts_for(site, spec, home), *own),
        own=frozenset((*config.environment.variables, *config.environment.secrets)),
        gpus=any(slot.device == "cuda" for slot in slots),
        devices=tuple(sorted(map(str, _FABRIC.glob("*")))),
        user=f"{os.getuid()}:{os.getgid()}",
    )


def mounts_for(site: Site, spec: LaunchSpec, home: Path) -> tuple[Mount, ...]:
    """What the ranks read and write on the node: the attempt's folder and all else in burst's
    home, the places of store, blobs and checkpoints, and credentials for AWS."""
    places = [site.ws.home, spec.path]
    for url in (spec.store_url, spec.blobs_url, *(tier.url for tier in spec.tiers)):
        scheme, _, rest = url.partition("://")
        if scheme in ("sqlite", "file"):
            path = Path(rest.partition("?")[0])
            places.append(path.parent if scheme == "sqlite" else path)
    places += [Path(site.environ[name]) for name in _AWS_FILES if site.environ.get(name)]
    aws = Path(site.environ.get("HOME") or "/nonexistent") / ".aws"
    credentials = [Mount(str(aws), str(home / ".aws"), read_only=True)] if aws.is_dir() else []
    return (*map(Mount.same, outermost(places)), *credentials)


def outermost(paths: Iterable[Path]) -> list[Path]:
    """The paths that lie in none of the others, each once."""
    found: list[Path] = []
    for path in sorted(set(paths)):
        if not any(path.is_relative_to(other) for other in found):
            found.append(path)
    return found


def prepare_image(container: Container, code: Path, helper: Helper) -> None:
    """Have the image on the node, and see that it has this version of burst.

    Raises:
        CannotPrepare: it cannot be had, or has another burst or none.
    """
    for folder in (container.home, container.cache):
        folder.mkdir(parents=True, exist_ok=True)
    runtime, image = shlex.quote(container.runtime), shlex.quote(container.image)
    look = f"{runtime} image inspect {image} >/dev/null 2>&1"
    helper.run(("/bin/sh", "-c", f"{look} || {runtime} pull --quiet {image}"), code)
    own = metadata.version("burst")
    check = (
        "import importlib.metadata as m; v = m.version('burst'); "
        f"assert v == {own!r}, f'the image has burst {{v}}, and the node has {own}'"
    )
    try:
        helper.run((PYTHON, "-c", check), code, container)
    except CannotPrepare as error:
        raise CannotPrepare(
            f"the image {container.image} cannot run a trial",
            why=error.why,
            mend=f"build one with burst {own} in it (images/README.md), or drop the image",
        ) from error
