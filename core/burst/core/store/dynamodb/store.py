"""The store in one DynamoDB table, for any number of machines.

Every commit is one transaction. Events have one order, so each commit that has some also counts
them: two such commits at once make one of them be tried again.

Reading costs what is read, and is consistent, but for what the indexes find: `live` reads each
record that the index names from the table, besides those that were made in the last minutes;
`events` of all experiments stops where one is missing that the index has not taken in yet. A list
is several reads for DynamoDB: it may show a part of a commit that happens meanwhile, which whoever
writes finds out by the versions.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from burst.core.chance import chance
from burst.core.errors import NotFound
from burst.core.model import Event, MetricChunk, Record
from burst.core.retrying import Retries
from burst.core.store import codec
from burst.core.store.checks import check_writes, cursor_of, sequence_of
from burst.core.store.dynamodb import items
from burst.core.store.dynamodb.items import COUNTER, FEED, LIVE, Item, Key, text
from burst.core.store.dynamodb.plan import Plan, counted, plan
from burst.core.store.dynamodb.table import Table, TableUrl, equal
from burst.core.store.port import EventPage, Write

R = TypeVar("R", bound=Record)

_RETRIES = Retries(attempts=12, first_s=0.05, longest_s=5.0, within_s=20.0)
"""A table that is away for longer is unreachable; a throttled one is not, within that."""
_COLLISION_S = 0.02
_MOST_HOMES = 10_000


class DynamoStore:
    """Safe for threads, processes, machines, and across `fork`."""

    def __init__(
        self, url: str, retries: Retries = _RETRIES, now: Callable[[], float] = time.time
    ) -> None:
        """Opens `dynamodb://table?region=…&endpoint_url=…`; connects at the first call.

        Raises:
            UsageError: it names no table, or has an option that is not known.
        """
        self.table = Table(TableUrl.parse(url), retries)
        self._retries = retries
        self._now = now
        self._homes: dict[Key | None, str] = {}
        """Partitions of records by their pointers; no record ever changes its own."""
        self._events: int | None = None
        """How many there were when it was last heard."""

    @property
    def url(self) -> str:
        return self.table.where.url

    def find(self, kind: type[R], id: str) -> R | None:
        (home,) = self._homes_of(kind, [id]).values()
        if home is None:
            return None
        found = self.table.get((home, id))
        return codec.decode_record(kind, items.body_of(found)) if found else None

    def get(self, kind: type[R], id: str) -> R:
        record = self.find(kind, id)
        if record is None:
            raise NotFound(f"no {kind.kind} {id}")
        return record

    def find_many(self, kind: type[R], ids: Iterable[str]) -> dict[str, R]:
        homes = self._homes_of(kind, ids)
        found = self.table.get_many([(home, id) for id, home in homes.items() if home is not None])
        records = [codec.decode_record(kind, items.body_of(item)) for item in found]
        return {record.id: record for record in records}

    def children(
        self,
        kind: type[R],
        parent: str,
        *,
        after: str = "",
        limit: int | None = None,
        newest_first: bool = False,
    ) -> list[R]:
        condition, values = equal("pk", items.partition_of(kind, parent))
        if after:
            condition += " AND sk < :after" if newest_first else " AND sk > :after"
            values[":after"] = text(after)
        found = self.table.query(
            condition,
            values,
            limit=limit,
            ScanIndexForward=not newest_first,
            ConsistentRead=True,
        )
        return [codec.decode_record(kind, items.body_of(item)) for item in islice(found, limit)]

    def live(self, kind: type[R], pool: str | None = None) -> list[R]:
        condition, values = equal("live", kind.kind)
        if pool is not None:
            condition += " AND begins_with(live_at, :pool)"
            values[":pool"] = text(items.live_at(pool, ""))
        named = self.table.query(condition, values, IndexName=LIVE)
        keys = {(item["pk"]["S"], item["sk"]["S"]): None for item in named}
        if kind in items.ANNOUNCED:
            keys |= dict.fromkeys(self._new(kind))
        bodies = map(items.body_of, self.table.get_many(list(keys)))
        records = [codec.decode_record(kind, body) for body in bodies]
        return sorted(
            (each for each in records if each.live and pool in (None, each.pool_name)),
            key=lambda record: record.id,
        )

    def commit(self, *writes: Write) -> None:
        check_writes(writes)
        if not writes:
            return
        self._commit(plan(writes, uuid.uuid4().hex, self._now()))

    def metrics(self, trial: str, group: str | None = None) -> list[MetricChunk]:
        condition, values = equal("pk", f"metrics/{trial}")
        if group is not None:
            condition += " AND begins_with(sk, :group)"
            values[":group"] = text(f"{group}/")
        found = self.table.query(condition, values, ConsistentRead=True)
        chunks = [codec.decode_chunk(items.body_of(item)) for item in found]
        return sorted(
            (chunk for chunk in chunks if group in (None, chunk.group)),
            key=lambda chunk: (chunk.group, chunk.attempt, chunk.seq),
        )

    def events(self, after: str = "", *, limit: int = 1000, experiment: str = "") -> EventPage:
        first = sequence_of(after)
        found = self._events_of(experiment, first) if experiment else self._all_events(first)
        page: list[Event] = []
        for sequence, item in islice(found, limit):
            page.append(codec.decode_event(items.body_of(item)))
            first = sequence
        return EventPage(tuple(page), cursor_of(first))

    def newest_cursor(self) -> str:
        return cursor_of(counted(self.table.get(COUNTER)))

    def close(self) -> None:
        self.table.close()

    def _commit(self, planned: Plan) -> None:
        collisions = 0
        while True:
            before = self._sequence() if planned.events else 0
            actions = planned.transaction(self.table.where.name, before)
            met = self.table.transact(actions, uuid.uuid4().hex)
            if met is None or planned.is_own(met):
                self._events = before + len(planned.events) if planned.events else self._events
                return
            refusal = planned.refusal(met)
            if refusal is not None:
                raise refusal
            self._events = counted(met[len(planned.actions)])
            collisions += 1
            self._retries.sleep(chance.random() * _COLLISION_S * min(collisions, 10))

    def _homes_of(self, kind: type[Record], ids: Iterable[str]) -> dict[str, str | None]:
        """By id: the partition of a record, if it is known or written down."""
        homes = {
            id: items.home_of(kind, id) or self._homes.get(pointer)
            for id in ids
            for pointer in [items.pointer_of(kind, id)]
        }
        unknown = [items.pointer_of(kind, id) for id, home in homes.items() if home is None]
        if len(self._homes) > _MOST_HOMES:
            self._homes.clear()
        for note in self.table.get_many([key for key in unknown if key is not None]):
            home = items.partition_of(kind, note["parent"]["S"])
            homes[note["sk"]["S"]] = self._homes[note["pk"]["S"], note["sk"]["S"]] = home
        return homes

    def _new(self, kind: type[Record]) -> Iterator[Key]:
        """The keys of records made lately, which the index may not show yet."""
        condition, values = equal("pk", items.news_of(kind))
        values[":since"] = text(items.news_from(self._now() - items.NEW_FOR_S))
        condition += " AND sk > :since"
        for item in self.table.query(condition, values, ConsistentRead=True):
            yield from items.keys_told(item)

    def _sequence(self) -> int:
        if self._events is None:
            self._events = counted(self.table.get(COUNTER))
        return self._events

    def _events_of(self, experiment: str, first: int) -> Iterator[tuple[int, Item]]:
        condition, values = equal("pk", f"events/{experiment}")
        values[":after"] = text(cursor_of(first))
        condition += " AND sk > :after"
        for item in self.table.query(condition, values, ConsistentRead=True):
            yield sequence_of(item["sk"]["S"]), item

    def _all_events(self, first: int) -> Iterator[tuple[int, Item]]:
        condition, values = equal("feed", FEED)
        values[":after"] = text(cursor_of(first))
        names: dict[str, Any] = {"ExpressionAttributeNames": {"#sequence": "sequence"}}
        found = self.table.query(
            condition + " AND #sequence > :after", values, IndexName=FEED, **names
        )
        for place, item in enumerate(found, start=first + 1):
            if sequence_of(item["sequence"]["S"]) != place:
                return  # the index has not taken one in yet that lies between
            yield place, item
