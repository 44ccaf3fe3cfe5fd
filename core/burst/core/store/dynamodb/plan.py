"""A commit as the actions of one transaction, and what it means if their conditions fail. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from burst.core.errors import BurstError
from burst.core.model import Event, Record, Trial
from burst.core.store import codec
from burst.core.store.checks import conflict, fenced
from burst.core.store.dynamodb.items import (
    ANNOUNCED,
    COUNTER,
    Item,
    Key,
    chunk_key,
    event_item,
    home_of,
    key_of,
    keyed,
    news_item,
    number,
    pointer_of,
    record_item,
    text,
    token_of,
    version_of,
)
from burst.core.store.port import Append, AppendMetrics, Delete, Fence, Put, Write

MOST_ACTIONS = 100
MOST_BYTES = 4 * 2**20


@dataclass
class _Guarded:
    """What one item has to be for the commit to happen."""

    record: Record | None = None
    fences: list[Fence] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    actions: tuple[Item, ...]
    """All but those of events."""
    guards: tuple[_Guarded | None, ...]
    """By action, what its condition stands for."""
    events: tuple[Event, ...]
    commit: str
    """Written into every item, by which a commit whose answer was lost is known again."""

    def transaction(self, table: str, sequence: int) -> list[Item]:
        """The whole transaction, if so many events have been committed before.

        Raises:
            ValueError: if it is too large for DynamoDB: a defect of the caller.
        """
        actions = [*self.actions]
        if self.events:
            actions.append(_count(sequence, len(self.events), self.commit))
            for place, event in enumerate(self.events, start=sequence + 1):
                actions.append({"Put": {"Item": event_item(event, place, self.commit)}})
        size = sum(map(_size, actions))
        if len(actions) > MOST_ACTIONS or size > MOST_BYTES:
            raise ValueError(
                f"{len(actions)} actions of {size} bytes in one commit; DynamoDB takes "
                f"{MOST_ACTIONS} of {MOST_BYTES}"
            )
        for action in actions:
            for of in action.values():
                of["TableName"] = table
        return actions

    def refusal(self, met: Sequence[Item | None]) -> BurstError | None:
        """Why the transaction was refused; None if only another commit has added events.

        Args:
            met: by action, what its condition met where it did not hold.
        """
        failed = [
            (guard, item)
            for guard, item in zip(self.guards, met, strict=False)
            if guard is not None and item is not None
        ]
        for guard, item in failed:
            for fence in guard.fences:
                if token_of(item) != fence.token:
                    return fenced(fence.trial, fence.token, token_of(item))
        for guard, item in failed:
            if guard.record is not None:
                return conflict(guard.record, version_of(item))
        return None

    def is_own(self, met: Iterable[Item | None]) -> bool:
        """Whether what was met is this very commit, done already though the answer got lost."""
        return any(item.get("commit", {}).get("S") == self.commit for item in met if item)


def plan(writes: Sequence[Write], commit: str, now: float) -> Plan:
    guards: dict[Key, _Guarded] = {}
    others: dict[Key, Item] = {}
    puts: dict[Key, Item] = {}
    for write in writes:
        match write:
            case Put(record) | Delete(record):
                key = key_of(record)
                guards.setdefault(key, _Guarded()).record = record
                if isinstance(write, Put):
                    puts[key] = record_item(record, commit)
                others |= _pointer(write)
            case Fence(trial):
                key = f"{home_of(Trial, trial)}", trial
                guards.setdefault(key, _Guarded()).fences.append(write)
            case AppendMetrics(chunk):
                body = {":body": {"B": codec.encode_chunk(chunk)}}
                key = chunk_key(chunk)
                others[key] = {
                    "Update": {
                        "Key": keyed(key),
                        "UpdateExpression": "SET body = if_not_exists(body, :body)",
                        "ExpressionAttributeValues": body,
                    }
                }
    others |= _news(writes, commit, now)
    actions = [_guarded(key, guard, puts.get(key)) for key, guard in guards.items()]
    events = tuple(write.event for write in writes if isinstance(write, Append))
    return Plan(
        (*actions, *others.values()),
        (*guards.values(), *[None] * len(others)),
        events,
        commit,
    )


def _guarded(key: Key, guard: _Guarded, put: Item | None) -> Item:
    """The action on an item that has conditions."""
    conditions, names, values = [], {}, {}
    record = guard.record
    if record is not None and put is not None and record.version == 0:
        conditions.append("attribute_not_exists(pk)")
    elif record is not None:
        conditions.append("version = :version")
        values[":version"] = number(record.version)
    for place, fence in enumerate(guard.fences):
        conditions.append(f"#token = :token{place}")
        names["#token"] = "token"  # a word that DynamoDB keeps for itself
        values[f":token{place}"] = number(fence.token)
    action: dict[str, Any] = {
        "ConditionExpression": " AND ".join(conditions),
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    if names:
        action["ExpressionAttributeNames"] = names
    if values:
        action["ExpressionAttributeValues"] = values
    if put is not None:
        return {"Put": {"Item": put, **action}}
    return {"ConditionCheck" if record is None else "Delete": {"Key": keyed(key), **action}}


def _pointer(write: Put | Delete) -> dict[Key, Item]:
    """What keeps the note of a record's parent, if its id does not tell it."""
    record = write.record
    key = pointer_of(type(record), record.id)
    if key is None or (isinstance(write, Put) and record.version):
        return {}
    if isinstance(write, Delete):
        return {key: {"Delete": {"Key": keyed(key)}}}
    return {key: {"Put": {"Item": keyed(key, parent=text(record.parent))}}}


def _news(writes: Sequence[Write], commit: str, now: float) -> dict[Key, Item]:
    """What lets new records be found that the index does not show yet."""
    made: dict[type[Record], list[Key]] = {}
    for write in writes:
        record = write.record if isinstance(write, Put) else None
        if isinstance(record, ANNOUNCED) and record.live and not record.version:
            made.setdefault(type(record), []).append(key_of(record))
    items = [news_item(kind, keys, now, commit) for kind, keys in made.items()]
    return {(item["pk"]["S"], item["sk"]["S"]): {"Put": {"Item": item}} for item in items}


def _count(before: int, more: int, commit: str) -> Item:
    """Let there be more events, if there were so many."""
    return {
        "Update": {
            "Key": keyed(COUNTER),
            "UpdateExpression": "SET events = :now, #commit = :commit",
            "ConditionExpression": "events = :before" if before else "attribute_not_exists(pk)",
            "ExpressionAttributeNames": {"#commit": "commit"},
            "ExpressionAttributeValues": {
                ":now": number(before + more),
                ":commit": text(commit),
                **({":before": number(before)} if before else {}),
            },
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
    }


def counted(item: Mapping[str, Any] | None) -> int:
    """How many events there are, by the counter's item."""
    return int(item["events"]["N"]) if item and "events" in item else 0


def _size(action: Item) -> int:
    """Bytes, nearly."""
    of = next(iter(action.values()))
    values = {**of.get("Item", {}), **of.get("ExpressionAttributeValues", {})}
    return sum(
        len(value) if isinstance(value, str | bytes) else 64 * len(value)
        for each in values.values()
        for value in each.values()
    )
