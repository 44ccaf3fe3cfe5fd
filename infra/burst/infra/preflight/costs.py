"""What a cluster costs while nothing trains, and what its nodes cost by the hour. Pure.

Each line says how it was reckoned, so that whoever has other prices can reckon anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from burst.core.aws.instance_types import on_demand_price, table_date
from burst.core.config.cluster import AwsPool
from burst.infra.components.alarms import alarms_of
from burst.infra.preflight import prices
from burst.infra.services import SERVICES
from burst.infra.settings import Settings

MEMORY_GIB = 0.5
IDLE_CALL_S = 1.0
"""Of a call that finds nothing to do; generous."""
IDLE_READS = 12.5
"""Of the table, a call: counted (docs/benchmarks.md)."""
LOG_BYTES = 600
"""That AWS and the runner write of such a call."""
CALLS_A_MONTH = 60 * prices.MONTH_H
"""Once a minute."""


@dataclass(frozen=True)
class Line:
    what: str
    usd: float
    """A month."""
    reckoned: str
    """`2 × $0.01 × 730 h`."""


@dataclass(frozen=True)
class NodePrice:
    """What one node of a type costs, on demand."""

    pool: str
    type: str
    market: str
    usd: float | None
    """An hour, without its disk; None where it is not known."""
    disk_usd: float
    """An hour of its root disk."""
    max_nodes: int

    @property
    def most(self) -> float | None:
        """An hour of as many nodes as the pool may have, on demand."""
        return None if self.usd is None else (self.usd + self.disk_usd) * self.max_nodes


@dataclass(frozen=True)
class Estimate:
    idle: tuple[Line, ...]
    nodes: tuple[NodePrice, ...]
    notes: tuple[str, ...]

    @property
    def monthly(self) -> float:
        """US dollars of a month in which nothing trains."""
        return sum(line.usd for line in self.idle)


def estimate(settings: Settings) -> Estimate:
    """What the cluster's file makes AWS charge."""
    return Estimate(
        idle=(*_network(settings), *_runner(settings), *_storage()),
        nodes=tuple(
            price
            for name, pool in settings.pools.items()
            for price in _nodes(name, pool, settings)
        ),
        notes=_notes(settings),
    )


def _network(settings: Settings) -> Iterator[Line]:
    hours = prices.MONTH_H
    yield Line("network, subnets, gateway endpoints of S3 and DynamoDB", 0.0, "AWS takes nothing")
    for word in dict.fromkeys(settings.aws.endpoints):
        count = len(SERVICES[word])
        yield Line(
            f"endpoints of {', '.join(SERVICES[word])} ({word}), in one zone",
            count * prices.ENDPOINT_H * hours,
            f"{count} × ${prices.ENDPOINT_H} × {hours} h",
        )
    if settings.aws.nat:
        yield Line(
            f"NAT gateway and its address; beside that ${prices.NAT_GB} a GB",
            (prices.NAT_H + prices.ADDRESS_H) * hours,
            f"(${prices.NAT_H} + ${prices.ADDRESS_H}) × {hours} h",
        )


def _runner(settings: Settings) -> Iterator[Line]:
    if not settings.config.has_function:
        return
    calls, million = CALLS_A_MONTH, 1e6
    work = calls * IDLE_CALL_S * MEMORY_GIB
    yield Line(
        "runner, called once a minute",
        calls / million * prices.CALLS_MILLION + work * prices.GB_SECOND,
        f"{calls:,} calls × ${prices.CALLS_MILLION:.2f} a million + {calls:,} × {IDLE_CALL_S:g} s "
        f"× {MEMORY_GIB} GB × ${prices.GB_SECOND:.10f}",
    )
    yield Line(
        "table, read once a minute",
        calls * IDLE_READS / million * prices.READS_MILLION,
        f"{calls:,} × {IDLE_READS} reads × ${prices.READS_MILLION} a million",
    )
    yield Line(
        "runner's log",
        calls * LOG_BYTES / 1e9 * prices.LOGS_GB,
        f"{calls:,} × {LOG_BYTES} B × ${prices.LOGS_GB:.2f} a GB",
    )
    alarms = len(alarms_of(settings.cluster))
    yield Line(
        f"alarms, if it has {prices.FREE_ALARMS} others",
        alarms * prices.ALARM_MONTH,
        f"{alarms} × ${prices.ALARM_MONTH:.2f}",
    )
    yield Line(
        f"dashboard, if it has {prices.FREE_DASHBOARDS} others",
        prices.DASHBOARD_MONTH,
        f"1 × ${prices.DASHBOARD_MONTH:.2f}",
    )


def _storage() -> Iterator[Line]:
    """By size, of which an empty cluster has none."""
    a_gb = prices.TABLE_GB_MONTH + prices.BACKUP_GB_MONTH
    yield Line(f"table: ${a_gb:.2f} a GB with its backup", 0.0, "nothing is in it yet")
    yield Line(
        f"bucket: ${prices.BUCKET_GB_MONTH} a GB of what is kept there",
        0.0,
        "nothing is in it yet",
    )


def _nodes(name: str, pool: AwsPool, settings: Settings) -> Iterator[NodePrice]:
    disk = settings.aws.disk_gib * prices.DISK_GB_MONTH / prices.MONTH_H
    for each in pool.instance_types:
        price = on_demand_price(each, prices.REGION)
        yield NodePrice(name, each, pool.market, price, disk, pool.max_nodes)


def _notes(settings: Settings) -> tuple[str, ...]:
    region = settings.facts.region
    here = "" if region == prices.REGION else f", and the cluster is in {region}"
    notes = [
        f"A guide, and no bill: AWS's list prices of {prices.REGION} as of {prices.DATE}{here}.",
        f"Instances: on demand, as of {table_date()}; spot costs less, and its price changes.",
    ]
    if settings.config.has_function:
        notes.append("Alarms and the dashboard are free as long as the account has few others.")
    return tuple(notes)
