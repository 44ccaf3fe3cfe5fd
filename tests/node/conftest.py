"""A cluster whose one pool is of instances, and machines that become nodes of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from burst.core.aws.names import tags_of
from burst.core.ids import new_id
from burst.core.model import Node
from burst.core.store.port import Put
from burst.core.workspace import open_workspace
from tests.agent.conftest import CLOCK, STAND_IN, Cluster
from tests.node.imds_server import ImdsServer

PROGRAM = f"""
import sys
from dataclasses import replace
from burst.runner.node import identity, main
main.SETTLE_S = 0.0
main.NODE_PATIENCE_S = 1.0
main._PAUSE_S = main._LOOK_EVERY_S = 0.1
main.SETTINGS = replace(
    main.SETTINGS, launcher=({STAND_IN!r},), poll=0.02, node_every=0.05, ship_every=0.05, lease=6.0
)
main.STORE_PATIENCE_S = 3.0
sys.exit(main.main())
"""
"""The node's program with the times of a test, and a stand-in for what trains."""


@dataclass
class Machine:
    """One instance: its metadata service, its agent, and what became of it."""

    imds: ImdsServer
    folder: Path
    agent: subprocess.Popen[str]

    @property
    def shut_down(self) -> list[str]:
        """Every `shutdown` that was asked for."""
        asked = self.folder / "shutdown-asked"
        return asked.read_text().splitlines() if asked.exists() else []

    def sign(self, name: str) -> bool:
        return (self.folder / "run" / name).exists()

    def ended(self, seconds: float = 60.0) -> int:
        """The agent's status, once it has ended."""
        self.agent.communicate(timeout=seconds)
        return self.agent.returncode

    @property
    def said(self) -> str:
        return (self.folder / "console").read_text()


def fake_shutdown(folder: Path, does: str = "") -> Path:
    """A folder for PATH with a `shutdown` that only notes what it was asked for."""
    programs = folder / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    program = programs / "shutdown"
    program.write_text(f'#!/bin/sh\necho "$@" >> "{folder}/shutdown-asked"\n{does}\n')
    program.chmod(0o755)
    return programs


class Fleet:
    """The pool `spot` of a cluster, and the runner's part in it."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.machines: list[Machine] = []

    def launch(self, count: int = 1) -> list[Node]:
        """The intents of one request, as the runner writes them."""
        id, now = new_id("launch", CLOCK), CLOCK.now()
        nodes = [
            Node(id=new_id("node", CLOCK), pool="spot", expected_slots=2, requested=now, launch=id)
            for _ in range(count)
        ]
        self.cluster.ws.store.commit(*map(Put, nodes))
        return [self.node(node) for node in nodes]

    def node(self, node: Node) -> Node:
        """As it is now."""
        return self.cluster.ws.store.get(Node, node.id)

    def boot(self, launch: str, **environ: str) -> Machine:
        """A machine of the request."""
        number = len(self.machines)
        folder = self.folder / f"machine-{number}"
        imds = ImdsServer(f"i-{number}", **tags_of("vision", "spot", launch))
        programs = fake_shutdown(folder)
        ws = self.cluster.ws
        with (folder / "console").open("w") as console:
            agent = subprocess.Popen(
                [sys.executable, "-c", PROGRAM],
                stdout=console,
                stderr=console,
                text=True,
                cwd=self.folder,
                env={
                    **os.environ,
                    "PATH": f"{programs}:{os.environ['PATH']}",
                    "AWS_EC2_METADATA_SERVICE_ENDPOINT": imds.url,
                    "BURST_STORE": ws.store.url,
                    "BURST_BLOBS": ws.blobs.url,
                    "BURST_HOME": str(folder / "home"),
                    "BURST_RUN": str(folder / "run"),
                    **environ,
                },
            )
        machine = Machine(imds, folder, agent)
        self.machines.append(machine)
        return machine

    def close(self) -> None:
        for machine in self.machines:
            machine.agent.kill()
            machine.agent.communicate()
            machine.imds.close()


def cluster_file(**pool: object) -> str:
    options = {"instance_types": ["c5.large"], "max_nodes": 4, **pool}
    lines = "".join(f"\n    {key}: {value}" for key, value in options.items())
    return f"cluster: vision\naws: {{region: us-east-1}}\npools:\n  spot:\n    kind: aws{lines}\n"


@pytest.fixture
def fleet_of(tmp_path: Path) -> Iterator[Callable[..., Fleet]]:
    """Makes a fleet; further keys are the pool's in the cluster file."""
    made: list[Fleet] = []

    def make(**pool: object) -> Fleet:
        (tmp_path / "burst.yaml").write_text(cluster_file(**pool))
        code = tmp_path / "code"
        code.mkdir()
        (code / "train.py").write_text("print('user code')\n")
        state = {"STORE": f"sqlite://{tmp_path}/store.db", "BLOBS": f"file://{tmp_path}/blobs"}
        environ = {**os.environ, **{f"BURST_{name}": url for name, url in state.items()}}
        fleet = Fleet(Cluster(open_workspace(environ, cwd=tmp_path), code), tmp_path)
        made.append(fleet)
        return fleet

    yield make
    for fleet in made:
        fleet.close()
        fleet.cluster.ws.store.close()


@pytest.fixture
def fleet(fleet_of: Callable[..., Fleet]) -> Fleet:
    return fleet_of()
