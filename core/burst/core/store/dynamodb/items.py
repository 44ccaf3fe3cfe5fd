"""What lies in the table, as DynamoDB's own values. Pure.

    pk                   sk                            holds
    <kind>/<parent>      <id>                          a record
    id/<kind>            <id>                          the parent, where the id does not tell it
    metrics/<trial>      <group>/<attempt>/<sequence>  a metric chunk
    events/<experiment>  <sequence>                    an event
    events               next                          how many events there are
    new/<kind>           <time>/<commit>               the keys of what was just made

Two indexes are sparse: `live` has the keys of live records by kind, `feed` has all events by
sequence. Both lag behind the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from burst.core.model import Allocation, Event, Experiment, MetricChunk, Node, Record, Trial
from burst.core.store import codec
from burst.core.store.checks import cursor_of

Item = dict[str, Any]
Key = tuple[str, str]

LIVE, FEED = "live", "feed"
COUNTER: Key = ("events", "next")
ANNOUNCED: tuple[type[Record], ...] = (Experiment, Trial, Node, Allocation)
"""Kinds of which a new record must be seen before the index shows it. Whoever plans with one
missing takes its slots once more, asks for its machine once more, or leaves for lack of work."""
NEW_FOR_S = 360.0
"""How long a new record is found without the index: a minute for that to show it, and five by
which the clocks of two machines may differ."""
EXPIRES = "expires"
_FORGET_S = 24 * 3600.0
_DIGITS = 10


def home_of(kind: type[Record], id: str) -> str | None:
    """The partition of a record, as far as its id tells it; else None."""
    if kind.parent is Record.parent:
        return f"{kind.kind}/"
    if kind is Trial:
        return f"{kind.kind}/{id.rpartition('.')[0]}"
    return None


def partition_of(kind: type[Record], parent: str) -> str:
    return f"{kind.kind}/{parent}"


def key_of(record: Record) -> Key:
    """
    Raises:
        ValueError: if the id of a record tells another parent than it has: a defect of the caller.
    """
    partition, told = partition_of(type(record), record.parent), home_of(type(record), record.id)
    if told is not None and told != partition:
        raise ValueError(f"{record.kind} {record.id} cannot have the parent {record.parent!r}")
    return partition, record.id


def pointer_of(kind: type[Record], id: str) -> Key | None:
    """Where the parent of a record is written down, if its id does not tell it."""
    return None if home_of(kind, id) is not None else (f"id/{kind.kind}", id)


def keyed(key: Key, **values: Any) -> Item:
    return {"pk": {"S": key[0]}, "sk": {"S": key[1]}, **values}


def text(value: str) -> Item:
    return {"S": value}


def number(value: int) -> Item:
    return {"N": str(value)}


def record_item(record: Record, commit: str) -> Item:
    """A record as it will be: at the version after the one that was read."""
    item = keyed(
        key_of(record),
        body={"B": codec.encode_record(record)},
        version=number(record.version + 1),
        commit=text(commit),
    )
    if isinstance(record, Trial):
        item["token"] = number(record.token)
    if record.live:
        item["live"] = text(record.kind)
        item["live_at"] = text(live_at(record.pool_name, record.id))
    return item


def news_item(kind: type[Record], keys: Sequence[Key], now: float, commit: str) -> Item:
    """Tells of records that `commit` has made; the table forgets it after a day."""
    flat = [text(part) for key in keys for part in key]
    return keyed(
        (news_of(kind), f"{news_from(now)}/{commit}"),
        keys={"L": flat},
        **{EXPIRES: number(int(now + _FORGET_S))},
    )


def news_of(kind: type[Record]) -> str:
    return f"new/{kind.kind}"


def news_from(at: float) -> str:
    """Less than the sort keys of what was made after `at`."""
    return f"{max(0.0, at):014.3f}"


def keys_told(item: Mapping[str, Any]) -> list[Key]:
    flat = [str(part["S"]) for part in item["keys"]["L"]]
    return list(zip(flat[::2], flat[1::2], strict=True))


def live_at(pool: str, id: str) -> str:
    return f"{pool}/{id}"


def chunk_key(chunk: MetricChunk) -> Key:
    place = f"{chunk.group}/{chunk.attempt:0{_DIGITS}d}/{chunk.seq:0{_DIGITS}d}"
    return f"metrics/{chunk.trial}", place


def event_item(event: Event, sequence: int, commit: str) -> Item:
    return keyed(
        event_key(event.experiment, sequence),
        body={"B": codec.encode_event(event)},
        feed=text(FEED),
        sequence=text(cursor_of(sequence)),
        commit=text(commit),
    )


def event_key(experiment: str, sequence: int) -> Key:
    return f"events/{experiment}", cursor_of(sequence)


def body_of(item: Mapping[str, Any]) -> bytes:
    return bytes(item["body"]["B"])


def version_of(item: Mapping[str, Any] | None) -> int | None:
    return int(item["version"]["N"]) if item else None


def token_of(item: Mapping[str, Any] | None) -> int | None:
    return int(item["token"]["N"]) if item and "token" in item else None


def table_schema(name: str) -> dict[str, Any]:
    """What `CreateTable` takes."""

    def attribute(name: str, kind: str) -> dict[str, str]:
        return {"AttributeName": name, "AttributeType": kind}

    def keys(hashed: str, ranged: str) -> list[dict[str, str]]:
        return [
            {"AttributeName": hashed, "KeyType": "HASH"},
            {"AttributeName": ranged, "KeyType": "RANGE"},
        ]

    names = ("pk", "sk", "live", "live_at", "feed", "sequence")
    return {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [attribute(each, "S") for each in names],
        "KeySchema": keys("pk", "sk"),
        "GlobalSecondaryIndexes": [
            {
                "IndexName": LIVE,
                "KeySchema": keys("live", "live_at"),
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            },
            {
                "IndexName": FEED,
                "KeySchema": keys("feed", "sequence"),
                "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["body"]},
            },
        ],
    }
