"""How the nodes of a gang find each other before their ranks start.

Each prepares its share, then notes where it is (`Allocation.network`). When all others have, the
first share's node chooses an address of its own and a free port, and writes them
(`Allocation.rendezvous`); the others start when they hear of it. Every attempt chooses anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from burst.core.blobs import open_blobs
from burst.core.errors import Conflict, Unreachable
from burst.core.launch import LaunchSpec
from burst.core.model import Allocation, Json
from burst.runner.agent.attempts.releasing import note_network
from burst.runner.agent.ends.gang import is_over, nodes_of, others_of
from burst.runner.agent.hardware import network
from burst.runner.agent.hardware.network import LOOPBACK, Network
from burst.runner.agent.running.control import Control, Leaving, Start
from burst.runner.agent.running.environment import CannotPrepare
from burst.runner.agent.site import Site

_RETRY_S = 1.0


class Meeting:
    """One node's side of it; what it waits for, the agent hears in the store."""

    def __init__(self, site: Site, control: Control, latest: Callable[[], Allocation]) -> None:
        """`latest` gives the allocation as it was heard last; `control.news` tells of another."""
        self._site = site
        self._control = control
        self._latest = latest
        self._facts = network.gather()
        self._shown: list[str] = []
        """Places that hold what was written for the others to see."""

    def join(self, start: Start, spec: LaunchSpec) -> tuple[Start, dict[str, Json]]:
        """Wait until all nodes are ready; returns what to start then, with `spec.json` written
        anew, and what of the network is yet to be noted.

        Raises:
            Leaving: the attempt was asked to leave, or another node's part has ended.
            CannotPrepare: the nodes do not see the same checkpoints.
            Overtaken, Unreachable: as the store says.
        """
        first = spec.node_rank == 0
        met, chosen = self._invite(start, spec) if first else self._follow(start, spec)
        spec.model_copy(update={"rendezvous": met}).write()
        environ = {**chosen.settings, **start.environ}
        return replace(start, environ=environ), chosen.record(self._facts.stack)

    def clear(self) -> None:
        """Remove what was written for the others to see. Idempotent."""
        while self._shown:
            open_blobs(self._shown.pop()).delete(_key(self._latest().id))

    def _invite(self, start: Start, spec: LaunchSpec) -> tuple[str, Network]:
        others = others_of(self._latest(), self._site.node.id)
        self._wait(lambda record: set(others) <= set(record.network))
        peers = [self._latest().network[node] for node in others]
        apart = [each["address"] for each in peers if each["stack"] != self._facts.stack]
        way = network.own_address(apart[0]) if apart else ""
        address = network.meeting_address(self._facts, peers, way)
        chosen = self._choose(address, start, spec)
        self._shown = show(spec)
        met = f"{address}:{network.free_port(address)}"
        self._note(chosen.record(self._facts.stack), met)
        return met, chosen

    def _follow(self, start: Start, spec: LaunchSpec) -> tuple[str, Network]:
        self._note({"stack": self._facts.stack, "address": self._facts.address})
        self._wait(lambda record: bool(record.rendezvous))
        met = self._latest().rendezvous
        host = met.rpartition(":")[0]
        own = host if host == LOOPBACK else network.own_address(host)
        self._see(spec)
        return met, self._choose(own or self._facts.address, start, spec)

    def _see(self, spec: LaunchSpec) -> None:
        first = nodes_of(self._latest())[0]
        try:
            see(spec, first, self._site.node.id)
        except CannotPrepare:
            record = self._site.ws.store.get(Allocation, self._latest().id)
            if is_over(record, first) or not record.live:
                raise Leaving from None  # and what it had shown is cleared away
            raise

    def _choose(self, address: str, start: Start, spec: LaunchSpec) -> Network:
        gpus = any(device.startswith("cuda") for device in spec.devices)
        return network.choose(self._facts, address, start.environ, gpus=gpus)

    def _note(self, noted: dict[str, Json], met: str = "") -> None:
        store, clock, node = self._site.ws.store, self._site.clock, self._site.node.id
        while True:
            self._control.check()
            try:
                note_network(store, self._latest().id, node, noted, clock, met)
                return
            except (Conflict, Unreachable):
                clock.sleep(_RETRY_S)

    def _wait(self, until: Callable[[Allocation], bool]) -> None:
        while True:
            self._control.news.clear()
            self._control.check()
            if until(self._latest()):
                return
            self._control.news.wait()


def show(spec: LaunchSpec) -> list[str]:
    """Write into folders that are said to be shared what the other nodes have to see there;
    returns where."""
    urls = _folders(spec)
    for url in urls:
        open_blobs(url).put(_key(spec.allocation), b"burst")
    return urls


def see(spec: LaunchSpec, first: str, node: str) -> None:
    """Look for what the node `first` has shown, on `node`.

    Raises:
        CannotPrepare: a place for checkpoints is another one here.
    """
    for url in _folders(spec):
        if open_blobs(url).info(_key(spec.allocation)) is None:
            raise CannotPrepare(
                f"the nodes of the gang do not share {url}, where its checkpoints go",
                why=f"what {first} writes there is not seen on {node}",
                mend="mount one file system there on every node, or keep checkpoints in S3",
            )


def _folders(spec: LaunchSpec) -> list[str]:
    """The places for checkpoints that are folders, and so may be another one on every node."""
    urls = [tier.url for tier in spec.tiers] or [spec.checkpoints_url]
    return [url for url in urls if url.startswith("file://")]


def _key(allocation: str) -> str:
    return f"probes/{allocation}"
