"""A rehearsal from the command line: the cloud is raised, the experiment runs in it, machines are
lost, the fleet goes back to nothing, and the report is printed."""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

from burst.cli.commands.trial import metric_rows
from burst.cli.driver import Driver
from burst.cli.encoding import metric_row_json
from burst.cli.ending import finish
from burst.cli.following import Follower
from burst.cli.logs import log_to_stderr
from burst.cli.presenting import presenter_for
from burst.cli.reading import Picture
from burst.cli.session import Session
from burst.cli.shapes import RehearsalJson
from burst.cli.submitting import Prepared, prepare, submit
from burst.cli.views.plan import plan_page
from burst.cli.views.rehearsal import rehearsal_page
from burst.cli.watching import watch
from burst.core.checkpoints.exchange.download import download
from burst.core.config.cluster import ClusterConfig
from burst.core.config.load import find_cluster, load_cluster, load_experiment
from burst.core.errors import BurstError
from burst.core.model import Checkpoint, Node
from burst.runner.audit import audit, unexplained
from burst.runner.loop import is_idle
from burst.runner.pools import open_pools
from burst.runner.rehearsal.account import build_account
from burst.runner.rehearsal.cluster import as_file, cloud_pools, rehearsed
from burst.runner.rehearsal.control import Ec2Control
from burst.runner.rehearsal.losing import Losing
from burst.runner.rehearsal.report import Report, report_of
from burst.runner.rehearsal.scenario import Scenario
from burst.runner.rehearsal.servers import Servers, serve

log = logging.getLogger(__name__)

FLEET_PATIENCE_S = 180.0
"""From the end of the training until the fleet has to be at nothing."""
_LOOK_EVERY_S = 0.5
_THEIRS = ("BURST_STORE", "BURST_BLOBS", "BURST_CLUSTER", "BURST_HOME", "AWS_PROFILE")


class RehearseOptions(TypedDict):
    """What is to go wrong, and where."""

    lose: int
    notices: Sequence[str]
    capacity: Sequence[str]
    seed: int
    code: Path | None
    overrides: Sequence[str]
    pools: Sequence[str]
    keep: Path | None
    as_json: bool


class Rehearsing:
    """One rehearsal."""

    def __init__(
        self, session: Session, file: Path, scenario: Scenario, options: RehearseOptions
    ) -> None:
        self._session = session
        self._file = file
        self._scenario = scenario
        self._options = options

    def run(self) -> int:
        """Rehearse; returns the exit status.

        Raises:
            BurstError: the file is wrong, or the cloud could not be raised.
        """
        config = load_experiment(self._file, self._options["overrides"]).config
        cluster = rehearsed(self._cluster(), config.resources.slots_per_trial)
        with _folder(self._options["keep"]) as folder:
            self._session.note("raising the cloud …")
            with serve(folder / "cloud") as servers:
                environ = self._environ(servers, folder, cluster)
                with _set(environ):
                    build_account(cluster, as_file(cluster), servers.environ)
                    inner = Session(environ, self._session.cwd, self._session.clock)
                    return self._rehearse(inner, servers, cluster)

    def _cluster(self) -> ClusterConfig:
        """The user's cluster file, of which nothing is opened."""
        named = self._session.environ.get("BURST_CLUSTER", "")
        path = Path(named) if named else find_cluster(self._session.cwd)
        return load_cluster(path) if path is not None else ClusterConfig()

    def _environ(
        self, servers: Servers, folder: Path, cluster: ClusterConfig
    ) -> Mapping[str, str]:
        file = folder / "burst.yaml"
        file.write_text(as_file(cluster))
        mine = {k: v for k, v in self._session.environ.items() if k not in _THEIRS}
        places = {"BURST_HOME": str(folder / "home"), "BURST_CLUSTER": str(file)}
        return {**mine, **servers.environ, **places}

    def _rehearse(self, inner: Session, servers: Servers, cluster: ClusterConfig) -> int:
        options = self._options
        pools = options["pools"] or cloud_pools(cluster)
        prepared = prepare(inner, self._file, options["code"], options["overrides"], pools)
        self._show_plan(inner, prepared)
        cursor = inner.store.newest_cursor()
        experiment = submit(inner, prepared, new=True).experiment
        control = Ec2Control(servers.ec2)
        log_to_stderr(logging.ERROR)
        follower = Follower(inner.store, experiment.id, cursor)
        presenter = presenter_for(inner, as_json=options["as_json"])
        losing = Losing(self._scenario, inner.store, experiment.id, control, inner.clock)
        try:
            with Driver(inner.workspace) as driver:
                with losing:
                    picture = watch(inner, follower, presenter, driver=driver)
                self._wait_for_nothing(inner, driver)
        finally:
            self._end_local(inner)
        if options["keep"] is not None:
            _keep(inner, picture, options["keep"])
        status = finish(inner, picture, as_json=options["as_json"])
        left = unexplained(audit(inner.workspace, open_pools(inner.workspace)))
        report = report_of(
            inner.store,
            cloud_pools(cluster),
            losing,
            control.machines(),
            [f"{each.kind} {each.id}" for each in left],
        )
        return self._tell(inner, experiment.id, report, status)

    def _show_plan(self, inner: Session, prepared: Prepared) -> None:
        if not self._options["as_json"]:
            inner.show(plan_page(prepared.plan), "")

    def _wait_for_nothing(self, inner: Session, driver: Driver) -> None:
        """Until the fleet has gone back to zero, which is part of what is rehearsed."""
        inner.note("waiting for the fleet to go back to nothing …")
        until = inner.clock.monotonic() + FLEET_PATIENCE_S
        while not is_idle(inner.store) and inner.clock.monotonic() < until:
            if driver.error is not None:
                raise driver.error
            inner.clock.sleep(_LOOK_EVERY_S)

    def _end_local(self, inner: Session) -> None:
        """Agents on this machine end with their rehearsal, however that ends."""
        try:
            pools = open_pools(inner.workspace)
            for node in inner.store.live(Node):
                if node.pool in pools and not pools[node.pool].limits.costs:
                    pools[node.pool].terminate(node)
        except BurstError as error:
            log.warning("ending the agents of this machine: %s", error)

    def _tell(self, inner: Session, experiment: str, report: Report, status: int) -> int:
        status = status if report.clean else max(status, 1)
        if self._options["as_json"]:
            inner.json_line(rehearsal_json(experiment, report, status))
        else:
            inner.show("", rehearsal_page(report, inner.out.width))
        return status


def _keep(inner: Session, picture: Picture, folder: Path) -> None:
    """What each trial came to, since table and bucket end with the cloud: the metrics that it
    reported, and its newest checkpoint as ordinary files."""
    for trial in picture.trials:
        into = folder / "trials" / f"t{trial.number:04d}"
        into.mkdir(parents=True, exist_ok=True)
        rows = [metric_row_json(name, row) for name, row in metric_rows(inner, trial.id, None)]
        (into / "metrics.json").write_text(json.dumps(rows, indent=2))
        if trial.checkpoint:
            found = inner.store.get(Checkpoint, trial.checkpoint)
            download(inner.workspace.blobs, found, into / "checkpoint", force=True)


def rehearsal_json(experiment: str, report: Report, status: int) -> RehearsalJson:
    return {
        "type": "rehearsal",
        "exit_code": status,
        "experiment": experiment,
        "recoveries": [
            {
                "trial": each.trial,
                "instance": each.instance,
                "notice": each.notice,
                "asked": each.asked,
                "resumed": each.resumed,
                "repeated": each.repeated,
            }
            for each in report.recoveries
        ],
        "unmade": report.unmade,
        "first_asked": report.first_asked,
        "refused": list(report.refused),
        "machines": report.machines,
        "machine_seconds": report.seconds,
        "usd": report.usd,
        "left": list(report.left),
        "unexplained": list(report.unexplained),
    }


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """Where the rehearsal lives: a folder to throw away, unless it is to be kept."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.absolute()
        return
    made = Path(tempfile.mkdtemp(prefix="burst-rehearsal-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def _set(environ: Mapping[str, str]) -> Iterator[None]:
    """This process's environment is `environ` inside: AWS's clients read no other."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
