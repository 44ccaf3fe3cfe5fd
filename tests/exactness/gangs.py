"""Several agents on this machine as the nodes of one pool, and a trial that ends them at chosen
batches."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from burst.core.logs import read_logs
from burst.core.model import Allocation, Experiment, Node, Trial
from burst.core.states import TrialState, is_terminal
from burst.core.workspace import Workspace, open_workspace
from tests.exactness.support import Bench, Ending, ending, wait_for

GANGED = '''
"""The example's trial, in which the last rank does once, at a batch, what a file says."""

import os, signal, time
from pathlib import Path

import psutil

from burst.core.launch import StopFlag, read_launch
from burst.core.model import Trial
from burst.core.store import open_store
from interrupted import Interrupted


def agent():
    return next(each for each in psutil.Process().parents() if "agent" in each.cmdline())


class Ganged(Interrupted):
    def train_batch(self, batch, epoch_idx, batch_idx):
        ranks = self.context.distributed
        folder = Path(os.environ["INTERRUPTIONS"])
        print("trains batch", batch_idx, flush=True)
        for act in ("raise", "term", "die", "exit"):
            mark = folder / f"{act}-{batch_idx}"
            if ranks.rank == ranks.size - 1 and mark.exists():
                mark.unlink()
                getattr(self, f"_{act}")()
        if ranks.rank == 0:
            with (folder.parent / "trained").open("a") as trained:
                trained.write(f"{batch_idx}\\n")
        return super().train_batch(batch, epoch_idx, batch_idx)

    def _wait_for_checkpoint(self):
        """So that it does not depend on the disk how much the next attempt repeats."""
        spec = read_launch()
        store = open_store(spec.store_url)
        while not store.get(Trial, spec.trial).checkpoint:
            time.sleep(0.05)
        store.close()

    def _raise(self):
        self._wait_for_checkpoint()
        raise ZeroDivisionError("the user is to see this")

    def _exit(self):
        self._wait_for_checkpoint()
        os._exit(3)

    def _term(self):
        agent().send_signal(signal.SIGTERM)
        flag = StopFlag(read_launch().path / "stop")
        while not flag.is_set:
            time.sleep(0.01)

    def _die(self):
        self._wait_for_checkpoint()
        agent().kill()
        time.sleep(600)  # its guard ends this process
'''
SETTINGS = (
    "entrypoint=ganged:Ganged",
    "environment.variables.WORKERS=1",
    "environment.variables.OMP_NUM_THREADS=1",
    "optimizations.aggregation_frequency=2",
    "report_every=5ba",
    "searcher.max_length=40ba",
    "validate.every=20ba",
    "checkpoints.every=10ba",
)


@dataclass(frozen=True)
class Ended:
    """A trial that is over, with all its attempts in their order."""

    trial: Trial
    attempts: tuple[Allocation, ...]
    ending: Ending
    trained: tuple[int, ...]
    """The batches in the order in which they were trained, those that were repeated again."""
    logged: Mapping[int, int]
    """How many lines each rank's log has."""


class Cluster:
    """One store that several agents share, each a node of pool `lab`."""

    def __init__(self, folder: Path, slots_per_node: int) -> None:
        """Pool `whole` has nodes with as many slots as two of `lab`."""
        folder.mkdir(parents=True)
        self.bench = Bench.of_example("digits", "DigitsTrial", folder)
        (self.bench.code / "ganged.py").write_text(GANGED)
        (self.bench.code / "burst.yaml").write_text(
            f"pools:\n  lab: {{kind: static, slots_per_node: {slots_per_node}}}\n"
            f"  whole: {{kind: static, slots_per_node: {2 * slots_per_node}}}\n"
        )
        self.marks = folder / "interruptions"
        self.agents: list[subprocess.Popen[bytes]] = []
        self._log = folder / "agents.log"

    @contextmanager
    def nodes(self, count: int, prefixes: Sequence[tuple[str, ...]] = ()) -> Iterator[Workspace]:
        """So many agents, started in front of whatever the body does; ended behind it.

        Args:
            prefixes: words to put before the command of each.
        """
        workspace = open_workspace(self.bench.environment, self.bench.code)
        try:
            for prefix in prefixes or [()] * count:
                self.start_agent(*prefix)
            with closing(workspace.store):
                wait_for(lambda: self._ready(workspace, count), f"{count} nodes")
                yield workspace
        finally:
            self.end_agents()

    def start_agent(
        self, *prefix: str, pool: str = "lab", disk: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """
        Args:
            prefix: words to put before its command.
            disk: a home of its own; by default all share one.
        """
        command = (*prefix, sys.executable, "-m", "burst.cli", "agent", "--pool", pool)
        environ, home = self.bench.environment, self.bench.home
        if disk is not None:
            shared = {"BURST_STORE": f"sqlite://{home}/store.db"}
            shared["BURST_BLOBS"] = f"file://{home}/blobs"
            environ = {**environ, **shared, "BURST_HOME": str(disk)}
        with self._log.open("ab") as log:
            agent = subprocess.Popen(
                command, env=environ, cwd=self.bench.code, stdout=log, stderr=log
            )
        self.agents.append(agent)
        return agent

    def end_agents(self, *, gently: bool = False) -> None:
        """`gently`: as a person does, so that their nodes are gone at once."""
        if gently:
            for agent in self.agents:
                agent.terminate()
            for agent in self.agents:
                agent.wait(60)
        while self.agents:
            _end(self.agents.pop())

    def submit(self, slots: int, marks: Sequence[str] = (), *settings: str) -> None:
        """Submit the experiment; a background runner brings it forward."""
        for name in marks:
            (self.marks / name).touch()
        given = (
            *SETTINGS,
            f"environment.variables.INTERRUPTIONS={self.marks}",
            f"resources.slots_per_trial={slots}",
            "resources.pools=[lab,whole]",
            *settings,
        )
        flags = [part for setting in given for part in ("--set", setting)]
        self.bench.burst("run", "exp.yaml", "--detach", *flags)

    def finish(self, workspace: Workspace) -> Ended:
        """The trial once it is over, resumed whenever it has paused itself."""
        trial = self.settled(workspace)
        while trial.state is TrialState.PAUSED:
            self.bench.burst("resume", trial.id)
            trial = self.settled(workspace)
        assert list(self.marks.iterdir()) == [], "an interruption was never reached"
        attempts = workspace.store.children(Allocation, trial.id)
        ordered = tuple(sorted(attempts, key=lambda each: each.attempt))
        lines = (self.marks.parent / "trained").read_text().split()
        return Ended(
            trial,
            ordered,
            ending(workspace, trial),
            trained=tuple(map(int, lines)),
            logged=Counter(line.rank for line in read_logs(workspace.blobs, trial.id)),
        )

    def settled(self, workspace: Workspace) -> Trial:
        """The trial once it has paused itself, or is over."""
        return wait_for(lambda: self._over(workspace), "the trial to pause or end")

    def _over(self, workspace: Workspace) -> Trial | None:
        (experiment,) = workspace.store.children(Experiment, "")
        trials = workspace.store.children(Trial, experiment.id)
        over = [t for t in trials if is_terminal(t.state) or t.state is TrialState.PAUSED]
        return over[0] if over else None

    def _ready(self, workspace: Workspace, count: int) -> bool | None:
        ready = [node for node in workspace.store.live(Node) if node.ready is not None]
        return True if len(ready) == count else None


def _end(agent: subprocess.Popen[bytes]) -> None:
    """An agent with all that it has started, whether or not it has ended."""
    try:
        family = [*psutil.Process(agent.pid).children(recursive=True)]
    except psutil.Error:
        family = []
    agent.kill()
    agent.wait()
    for process in family:
        try:
            process.kill()
        except psutil.Error:
            continue
