"""A rehearsal from the command line: the cloud is raised, the experiment runs in it, machines are
lost, the fleet goes back to nothing, and the report is printed."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

from burst.cli.commands.trial import metric_rows
from burst.cli.driver import Driver
from burst.cli.encoding import metric_row_json
from burst.cli.ending import finish
from burst.cli.following import Follower, settled
from burst.cli.logs import log_to_stderr
from burst.cli.presenting import presenter_for
from burst.cli.reading import Picture
from burst.cli.session import Session
from burst.cli.shapes import RehearsalJson
from burst.cli.submitting import Prepared, prepare, submit
from burst.cli.views.plan import plan_page
from burst.cli.views.rehearsal import kept_lines, rehearsal_page
from burst.cli.watching import watch
from burst.core.checkpoints.exchange.download import download
from burst.core.code.archive import pack_code
from burst.core.code.entrypoint import check_entrypoint
from burst.core.config.cluster import ClusterConfig
from burst.core.config.experiment import ExperimentConfig
from burst.core.config.load import find_cluster, load_cluster, load_experiment
from burst.core.errors import BurstError, Refused
from burst.core.model import Checkpoint, Node, Supply
from burst.core.store.port import Store
from burst.runner.audit import audit, unexplained
from burst.runner.loop import is_idle
from burst.runner.pools import open_pools
from burst.runner.rehearsal.account import build_account
from burst.runner.rehearsal.checking import check_fit, check_pools, check_region, check_zones
from burst.runner.rehearsal.cluster import (
    SPOT,
    as_file,
    cloud_pools,
    made_up,
    region_of,
    rehearsed,
)
from burst.runner.rehearsal.control import Ec2Control
from burst.runner.rehearsal.ec2.marks import MARK
from burst.runner.rehearsal.extra import check_extra
from burst.runner.rehearsal.folder import CLOUD, CLUSTER_FILE, HOME, TRIALS, rehearsal_folder
from burst.runner.rehearsal.hopeless import hopeless
from burst.runner.rehearsal.losing import Losing
from burst.runner.rehearsal.report import Report, report_of
from burst.runner.rehearsal.scenario import Scenario
from burst.runner.rehearsal.servers import Servers, serve
from burst.runner.rehearsal.sweeping import swept

log = logging.getLogger(__name__)

FLEET_PATIENCE_S = 180.0
"""From the end of the training until the fleet has to be at nothing."""
_LOOK_EVERY_S = 0.5
_THEIRS = ("BURST_STORE", "BURST_BLOBS", "BURST_CLUSTER", "BURST_HOME")
_AWS = "AWS_"
"""So begin the names of what leads AWS's clients to the user's account."""


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
        theirs = self._cluster()
        cluster = rehearsed(theirs, config.resources.slots_per_trial)
        self._check(config, theirs, cluster)
        with rehearsal_folder(self._options["keep"]) as folder, swept(folder):
            if made_up(theirs):
                self._session.note(
                    f"the cluster has no pool of kind aws: {SPOT} was made up for it"
                )
            self._session.note("raising the cloud …")
            with serve(folder / CLOUD) as servers:
                environ = self._environ(servers, folder, cluster)
                with _set(environ):
                    build_account(cluster, as_file(cluster), servers.environ)
                    inner = Session(environ, self._session.cwd, self._session.clock)
                    return self._rehearse(inner, servers, cluster)

    def _check(
        self, config: ExperimentConfig, theirs: ClusterConfig, cluster: ClusterConfig
    ) -> None:
        """All that can be known before a cloud is raised."""
        options = self._options
        check_extra()
        check_region(region_of(cluster))
        check_zones(self._scenario, region_of(cluster))
        names = options["pools"] or cloud_pools(cluster)
        check_pools(names, theirs, cluster)
        check_fit(config, names, cluster, self._session.home)
        code = options["code"] or self._file.parent
        check_entrypoint(config.entrypoint, code)
        if config.start is not None:
            raise Refused(
                "a rehearsal cannot start from a checkpoint",
                why="its cloud begins empty, without the checkpoint that warm_start names",
                mend="leave warm_start out of what is rehearsed",
            )
        pack_code(code)

    def _cluster(self) -> ClusterConfig:
        """The user's cluster file, of which nothing is opened."""
        named = self._session.environ.get("BURST_CLUSTER", "")
        path = Path(named) if named else find_cluster(self._session.cwd)
        return load_cluster(path) if path is not None else ClusterConfig()

    def _environ(
        self, servers: Servers, folder: Path, cluster: ClusterConfig
    ) -> Mapping[str, str]:
        file = folder / CLUSTER_FILE
        file.write_text(as_file(cluster))
        mine = {
            name: value
            for name, value in self._session.environ.items()
            if name not in _THEIRS and not name.startswith(_AWS)
        }
        places = {
            "BURST_HOME": str(folder / HOME),
            "BURST_CLUSTER": str(file),
            "AWS_DEFAULT_REGION": region_of(cluster),
            MARK: str(folder / HOME),  # on this machine's agents, for `swept`
        }
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
        hope = _Hope(inner.store, pools)
        try:
            with Driver(inner.workspace) as driver:
                with losing:
                    picture = watch(inner, follower, presenter, until=hope.over, driver=driver)
                if not hope.given_up:
                    self._wait_for_nothing(inner, driver)
        finally:
            self._end_local(inner)
        kept = options["keep"]
        if kept is not None:
            _keep(inner, picture, kept)
        status = finish(inner, picture, as_json=options["as_json"], hints=kept_lines(kept))
        left = unexplained(audit(inner.workspace, open_pools(inner.workspace)))
        report = report_of(
            inner.store,
            cloud_pools(cluster),
            losing,
            control.machines(),
            [f"{each.kind} {each.id}" for each in left],
            given_up=hope.given_up,
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


class _Hope:
    """Whether to go on watching: until all is over, or no machine can come any more."""

    def __init__(self, store: Store, pools: Sequence[str]) -> None:
        self._store = store
        self._pools = pools
        self._seen = ""
        self.given_up = ""
        """Why, once no machine can come any more."""

    def over(self, picture: Picture) -> bool:
        if settled(picture):
            return True
        books = {book.id: book for book in map(self._book, self._pools) if book is not None}
        why = hopeless(self._pools, books, self._store.live(Node))
        if why and self._seen:  # twice: the last node's end may be the trial's, too
            self.given_up = why
        self._seen = why
        return bool(self.given_up)

    def _book(self, pool: str) -> Supply | None:
        return self._store.find(Supply, pool)


def _keep(inner: Session, picture: Picture, folder: Path) -> None:
    """What each trial came to, since table and bucket end with the cloud: the metrics that it
    reported, and its newest checkpoint as ordinary files."""
    for trial in picture.trials:
        into = folder / TRIALS / f"t{trial.number:04d}"
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
        "given_up": report.given_up,
    }


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
