"""The pool itself: thin calls around pure decisions."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from burst.core.aws.names import placement_group_name, tag_list, tags_of
from burst.core.aws.templates import template_for
from burst.core.clock import Clock
from burst.core.config.cluster import AwsPool as AwsPoolConfig
from burst.core.errors import BurstError, Unreachable
from burst.core.model import Json, Node, Supply
from burst.runner.pools.aws import offers as deciding
from burst.runner.pools.aws.catalog import Catalog
from burst.runner.pools.aws.ec2 import Ec2, Ec2Error
from burst.runner.pools.aws.fleet import (
    OWN_GROUP,
    Cell,
    Instance,
    all_refused,
    ask_for,
    count_of,
    group_of,
    instances_in,
    pair,
    refusals_in,
    request_of,
)
from burst.runner.pools.aws.machines import MADE_WITHIN_S
from burst.runner.pools.aws.offers import Offer
from burst.runner.pools.aws.tagged import BOOT_WITHIN_S, Tagged
from burst.runner.pools.port import Launched, Limits, NothingOpen
from burst.runner.supply import closed_until, is_misfit, trouble

log = logging.getLogger(__name__)

FRESH_S = 3.0
"""An intent older than this may have been sent before, by this runner or another."""
_GROUP_EXISTS = "InvalidPlacementGroup.Duplicate"
_OTHER_REQUEST = "IdempotentParameterMismatch"


class AwsPool(Tagged):
    """Instances of one pool in one region.

    Nothing is remembered between calls but what EC2 said of its offers; any number of these may
    work on the same pool. Handles: instance, type, zone, subnet and market.
    """

    def __init__(
        self,
        name: str,
        config: AwsPoolConfig,
        cluster: str,
        ec2: Ec2,
        clock: Clock | None = None,
    ) -> None:
        """
        Args:
            cluster: the cluster's name, by which all that it owns is tagged.
        """
        super().__init__(name, cluster, ec2, clock)
        self._config = config
        self._catalog = Catalog(name, cluster, config, ec2, self._clock)

    @property
    def limits(self) -> Limits:
        return Limits(
            self._catalog.slots(), self._config.max_nodes, boot_within=BOOT_WITHIN_S, costs=True
        )

    def closed_until(self, supply: Supply, now: float) -> float | None:
        if is_misfit(supply):  # then there is no offer to look at
            return closed_until(supply, now)
        return deciding.closed_until(self._catalog.cached(), supply.refusals, self._config, now)

    def ask(
        self, count: int, *, whole: bool, beside: Node | None, supply: Supply, now: float
    ) -> Mapping[str, Json]:
        offers = deciding.usable(self._catalog.offers(), supply.refusals, self._config, now)
        cell = self._cell_of(beside) if beside is not None else None
        if cell is not None:
            offers = [offer for offer in offers if cell.has(offer)]
        if not offers:
            raise self._nothing_open(cell, supply)
        group = cell.group if cell is not None else ""
        if whole and count > 1 and cell is None:
            if len(offers) > 1:
                offers = deciding.ranked(self._catalog.scored(offers, count))
            offers = offers[:1]
            group = OWN_GROUP if self._catalog.kind(offers[0].type).cluster else ""
        if cell is not None and beside is not None:
            offers = [self._in_subnet_of(beside, offers[0])]
        return ask_for(
            count,
            [(each, self._template(each)) for each in offers],
            whole=whole,
            group=group,
            ahead=round(self._ec2.ahead, 1),
        )

    def launch(self, nodes: Sequence[Node]) -> Launched:
        now = self._clock.now()
        first = min(nodes, key=lambda node: node.id)
        launch = first.launch or first.id
        age = now - min(node.requested for node in nodes)
        late = age > MADE_WITHIN_S or not first.ask
        seen: dict[str, Instance] = {}
        if late or not 0.0 <= age <= FRESH_S:
            seen = dict(self._machines.look(launch).instances)
        if late or len(seen) >= count_of(first.ask):
            return Launched(tuple(pair(nodes, seen.values(), now)))
        return self._send(nodes, launch, seen, now)

    def _send(
        self, nodes: Sequence[Node], launch: str, seen: dict[str, Instance], now: float
    ) -> Launched:
        """Ask for the machines. The token makes a repetition the same request."""
        ask = min(nodes, key=lambda node: node.id).ask
        group = group_of(ask, self._cluster, launch)
        try:
            if ask.get("group") == OWN_GROUP:
                self._make_group(launch)
            answer = self._ec2.ask_once(
                "create_fleet", **request_of(ask, self._cluster, self.name, launch)
            )
        except Ec2Error as error:
            if error.code == _OTHER_REQUEST:
                return self._adopt(nodes, launch, now)
            refusals = all_refused(ask, error.code, error.message, now)
        else:
            found = instances_in(answer, ask, group)
            seen |= {each.id: each for each in found}
            refusals = refusals_in(answer, ask, now)
        if not seen and ask.get("group") == OWN_GROUP:
            self._drop_group(group)
        return Launched(tuple(pair(nodes, seen.values(), now)), refusals)

    def _adopt(self, nodes: Sequence[Node], launch: str, now: float) -> Launched:
        """What a request with the same token, and other parameters, has brought.

        Raises:
            Unreachable: nothing of it is to be seen yet.
        """
        seen = self._machines.look(launch).instances
        if not seen:
            raise Unreachable(
                f"EC2 knows request {launch} by other parameters, and shows no machine of it",
                mend="it is looked for again",
            )
        return Launched(tuple(pair(nodes, seen.values(), now)))

    def _make_group(self, launch: str) -> None:
        tags = tag_list(tags_of(self._cluster, self.name, launch))
        try:
            self._ec2.call(
                "create_placement_group",
                GroupName=placement_group_name(self._cluster, launch),
                Strategy="cluster",
                TagSpecifications=[{"ResourceType": "placement-group", "Tags": tags}],
            )
        except Ec2Error as error:
            if error.code != _GROUP_EXISTS:
                raise

    def _drop_group(self, name: str) -> None:
        """Where nothing came of a request its group is of no use; an audit finds what stays."""
        try:
            self._machines.delete_group(name)
        except BurstError as error:
            log.warning("placement group %s stays: %s", name, error)

    def _template(self, offer: Offer) -> str:
        kind = self._catalog.kind(offer.type)
        return template_for(self._cluster, self.name, kind, self._config.efa)

    def _cell_of(self, node: Node) -> Cell:
        cell = Cell.of(node, self._cluster)
        if cell is None:
            raise Unreachable(
                f"it is not known yet where node {node.id} is",
                why="its machine has claimed it before the answer to its request was read",
            )
        return cell

    def _in_subnet_of(self, node: Node, offer: Offer) -> Offer:
        subnet = str(node.handle.get("subnet", ""))
        return replace(offer, subnet=subnet) if subnet else offer

    def _nothing_open(self, cell: Cell | None, supply: Supply) -> NothingOpen:
        where = f"pool {self.name}"
        if cell is not None:
            return NothingOpen(
                f"{where} offers no {cell.type} in zone {cell.zone} now",
                why="nodes that complete a gang have to be beside the others of it",
            )
        return NothingOpen(f"{where} has nothing to offer now", why=trouble(supply))
