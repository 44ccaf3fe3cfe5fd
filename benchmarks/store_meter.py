"""Counts what is asked of DynamoDB, and what AWS would charge for it, by what goes over the line.

A proxy hears every request of every process. What an item costs follows from its size and from
how it is read or written, by the rules of the DynamoDB Developer Guide (November 2024): a
consistent read takes one unit for 4 KB, another a half; a write takes one for 1 KB, within a
transaction two, and one more for 1 KB of each index that it changes.
"""

from __future__ import annotations

import base64
import json
import math
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from burst.core.testing.fault_proxy import Exchange, fault_proxy

Item = Mapping[str, Any]

DOLLARS_A_READ = 0.125e-6
DOLLARS_A_WRITE = 0.625e-6
"""For one unit, on demand, in us-east-1, since November 2024 (aws.amazon.com/dynamodb/pricing)."""
PRICES = (
    "on demand, us-east-1, as of November 2024: $0.625 a million writes, $0.125 a million reads"
)


@dataclass(frozen=True)
class Tally:
    """What was asked so far."""

    requests: Counter[str]
    """By kind: `GetItem node`, `Query live allocation`, `TransactWriteItems`, …"""
    units: Mapping[str, float]
    """That reads took, by kind."""
    writes: float
    """Units."""

    @property
    def reads(self) -> float:
        """Units."""
        return sum(self.units.values())

    @property
    def dollars(self) -> float:
        return self.reads * DOLLARS_A_READ + self.writes * DOLLARS_A_WRITE

    def __sub__(self, other: Tally) -> Tally:
        requests = Counter(self.requests)
        requests.subtract(other.requests)
        units = {kind: n - other.units.get(kind, 0.0) for kind, n in self.units.items()}
        return Tally(+requests, units, self.writes - other.writes)


@dataclass
class Meter:
    url: str = ""
    _requests: Counter[str] = field(default_factory=Counter)
    _units: dict[str, float] = field(default_factory=dict)
    _writes: float = 0.0
    _stored: dict[tuple[str, str], Item] = field(default_factory=dict)
    """By key, as it was written or seen last."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def now(self) -> Tally:
        with self._lock:
            return Tally(Counter(self._requests), dict(self._units), self._writes)

    def hear(self, exchange: Exchange) -> None:
        call = exchange.target.rpartition(".")[2]
        asked, answer = json.loads(exchange.sent or b"{}"), json.loads(exchange.answer or b"{}")
        with self._lock:
            if call == "TransactWriteItems":
                self._requests[call] += 1
                self._writes += sum(map(self._write, asked["TransactItems"]))
            elif call in ("GetItem", "Query", "BatchGetItem"):
                kind = _kind(call, asked)
                self._requests[kind] += 1
                self._units[kind] = self._units.get(kind, 0.0) + _read(call, asked, answer)
                for item in _items(call, answer):
                    self._stored.setdefault(_key(item), item)

    def _write(self, action: Mapping[str, Any]) -> float:
        (name, what), *_ = action.items()
        key = _key(what.get("Item") or what["Key"])
        before = self._stored.get(key, {})
        if name == "Update":
            after = {**what["Key"], **what["ExpressionAttributeValues"]}
        else:
            after = {"Put": what.get("Item", {}), "ConditionCheck": before}.get(name, {})
        if name == "Delete":
            self._stored.pop(key, None)
        else:
            self._stored[key] = after
        units = 2 * _units(max(_size(before), _size(after)), 1024)
        return units + _of_live(before, after) + _of_feed(before, after)


@contextmanager
def metered(server: str) -> Iterator[Meter]:
    """A meter before a DynamoDB server; clients are to use its `url`."""
    meter = Meter()
    with fault_proxy(server) as proxy:
        proxy.listener = meter.hear
        meter.url = proxy.url
        yield meter


def _kind(call: str, asked: Mapping[str, Any]) -> str:
    if call == "BatchGetItem":
        (of,) = asked["RequestItems"].values()
        return f"BatchGetItem {of['Keys'][0]['pk']['S'].partition('/')[0]}"
    if call == "GetItem":
        return f"GetItem {asked['Key']['pk']['S'].partition('/')[0]}"
    values = asked["ExpressionAttributeValues"]
    partition = values.get(":pk") or values.get(":live") or values[":feed"]
    home = partition["S"]
    named = home if home.startswith("new/") else home.partition("/")[0]
    return " ".join(filter(None, (call, asked.get("IndexName", ""), named)))


def _items(call: str, answer: Mapping[str, Any]) -> list[Item]:
    if call == "GetItem":
        return [answer["Item"]] if "Item" in answer else []
    if call == "Query":
        return [item for item in answer.get("Items", []) if "version" in item]
    return [item for items in answer.get("Responses", {}).values() for item in items]


def _read(call: str, asked: Mapping[str, Any], answer: Mapping[str, Any]) -> float:
    if call == "Query":
        size = sum(map(_size, answer.get("Items", [])))
        return _units(size, 4096) * (1.0 if asked.get("ConsistentRead") else 0.5)
    found = [_units(_size(item), 4096) for item in _items(call, answer)]
    if call == "GetItem":
        return sum(found) or 1
    (of,) = asked["RequestItems"].values()
    return sum(found) + len(of["Keys"]) - len(found)


def _of_live(before: Item, after: Item) -> float:
    was, now = (
        (item["live"]["S"], item["live_at"]["S"]) if "live" in item else None
        for item in (before, after)
    )
    return 0.0 if was == now else float((was is not None) + (now is not None))


def _of_feed(before: Item, after: Item) -> float:
    return 0.0 if "feed" in before or "feed" not in after else _units(_size(after), 1024)


def _key(item: Item) -> tuple[str, str]:
    return item["pk"]["S"], item["sk"]["S"]


def _units(size: int, of: int) -> int:
    return max(1, math.ceil(size / of))


def _size(item: Item) -> int:
    """Bytes, as DynamoDB counts them."""
    return sum(len(name.lstrip(":").encode()) + _size_of(value) for name, value in item.items())


def _size_of(value: Mapping[str, Any]) -> int:
    ((kind, held),) = value.items()
    if kind == "B":
        return len(base64.b64decode(held))
    if kind == "N":
        return len(str(held).strip("-.")) // 2 + 2
    if kind == "L":
        return 3 + sum(1 + _size_of(each) for each in held)
    return len(str(held).encode())
