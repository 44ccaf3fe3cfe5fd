"""The calls to one table: pages gathered, what passes tried again, credentials found anew."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from burst.core.aws.regions import region_of
from burst.core.aws.sessions import aws_session
from burst.core.errors import Unauthorized, UsageError
from burst.core.retrying import Passing, Retries
from burst.core.store.dynamodb.items import EXPIRES, Item, Key, keyed, table_schema, text
from burst.core.store.dynamodb.words import no_answer, told

T = TypeVar("T")

_OPTIONS = ("endpoint_url", "region")
_CONNECT_S, _SILENCE_S = 3.0, 5.0
"""DynamoDB answers within milliseconds. An agent that renews its lease has to hear within a third
of that (10 s) that there is no answer: `burst.core.retrying.patience` and one of these."""
_CONNECTIONS = 32
_BATCH = 100
"""Items that one BatchGetItem takes."""


@dataclass(frozen=True)
class TableUrl:
    """`dynamodb://table?region=…&endpoint_url=…`, taken apart."""

    url: str
    name: str
    options: Mapping[str, str]

    @classmethod
    def parse(cls, url: str) -> TableUrl:
        """
        Raises:
            UsageError: it names no table, or has an option that is not known.
        """
        place, _, query = url.partition("?")
        name = place.removeprefix("dynamodb://").strip("/")
        options = dict(parse_qsl(query))
        unknown = sorted(options.keys() - set(_OPTIONS))
        if unknown or not name or "/" in name:
            what = f"has an unknown option {unknown[0]!r}" if unknown else "names no table"
            raise UsageError(
                f"{url!r} {what}",
                why="a table is dynamodb://name, with ?region= and ?endpoint_url= where needed",
                mend="correct BURST_STORE, or `store` in burst.yaml",
            )
        return cls(url, name, options)


class Table:
    """Safe for threads, and across `fork`: connections are made by whoever calls."""

    def __init__(self, where: TableUrl, retries: Retries) -> None:
        self.where = where
        self._retries = retries
        self._client: tuple[int, Any] | None = None
        self._lock = threading.Lock()

    def get(self, key: Key) -> Item | None:
        """An item, read consistently."""
        answer = self.call(
            lambda client: client.get_item(
                TableName=self.where.name, Key=keyed(key), ConsistentRead=True
            )
        )
        found: Item | None = answer.get("Item")
        return found

    def get_many(self, keys: Sequence[Key]) -> list[Item]:
        """The items that are there, read consistently, in no order."""
        found: list[Item] = []
        for first in range(0, len(keys), _BATCH):
            left = [keyed(key) for key in keys[first : first + _BATCH]]
            while left:
                left = self._retries.run(partial(self._get_some, left, found))
        return found

    def query(
        self, condition: str, values: Mapping[str, Any], *, limit: int | None = None, **how: Any
    ) -> Iterator[Item]:
        """The items of a query, page after page."""
        asked = {
            "TableName": self.where.name,
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": values,
            **how,
        }
        count = 0
        while limit is None or count < limit:
            if limit is not None:
                asked["Limit"] = limit - count
            page = self.call(partial(_query, dict(asked)))
            yield from page["Items"]
            count += len(page["Items"])
            if "LastEvaluatedKey" not in page:
                return
            asked["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def transact(self, actions: Sequence[Item], token: str) -> list[Item | None] | None:
        """Do all actions or none; None if they are done.

        Returns:
            Where a condition did not hold: by action, the item that it met (empty if there is
            none), and None where it did hold.

        Args:
            token: the same one for the same actions makes a repetition harmless for ten minutes.
        """
        return self._retries.run(lambda: self._transact(actions, token))

    def create(self) -> None:
        """Make the table, if it is not there; for rehearsals and tests."""
        from botocore.exceptions import ClientError

        def make(client: Any) -> None:
            try:
                client.create_table(**table_schema(self.where.name))
            except ClientError as error:
                if error.response["Error"]["Code"] != "ResourceInUseException":
                    raise
                return
            client.get_waiter("table_exists").wait(TableName=self.where.name)
            client.update_time_to_live(
                TableName=self.where.name,
                TimeToLiveSpecification={"Enabled": True, "AttributeName": EXPIRES},
            )

        self.call(make)

    def call(self, act: Callable[[Any], T]) -> T:
        """Call boto3's client, as often as it takes."""
        return self._retries.run(lambda: self._once(act))

    def close(self) -> None:
        with self._lock:
            held, self._client = self._client, None
        if held is not None and held[0] == os.getpid():
            held[1].close()

    def _once(self, act: Callable[[Any], T]) -> T:
        try:
            with told(self.where.name):
                return act(self._connect())
        except Unauthorized:
            # A profile may have been logged in again, or a role's file renewed, since.
            self.close()
            with told(self.where.name):
                return act(self._connect())

    def _get_some(self, left: Sequence[Item], found: list[Item]) -> list[Item]:
        name = self.where.name
        asked = {name: {"Keys": list(left), "ConsistentRead": True}}
        answer = self._once(lambda client: client.batch_get_item(RequestItems=asked))
        came = answer["Responses"].get(name, [])
        found.extend(came)
        unprocessed: list[Item] = answer.get("UnprocessedKeys", {}).get(name, {}).get("Keys", [])
        if unprocessed and not came:
            raise Passing(no_answer(name, "it is too busy"))
        return unprocessed

    def _transact(self, actions: Sequence[Item], token: str) -> list[Item | None] | None:
        from botocore.exceptions import ClientError

        try:
            self._once(
                lambda client: client.transact_write_items(
                    TransactItems=list(actions), ClientRequestToken=token
                )
            )
        except ClientError as error:
            reasons = error.response["CancellationReasons"]
            codes = {reason.get("Code") for reason in reasons} - {"None", None}
            if codes == {"ConditionalCheckFailed"}:
                return [_met(reason) for reason in reasons]
            words = no_answer(self.where.name, f"the transaction met {', '.join(sorted(codes))}")
            if "ValidationError" in codes:
                raise ValueError(str(error)) from error
            raise Passing(words) from error
        return None

    def _connect(self) -> Any:
        with self._lock:
            if self._client is None or self._client[0] != os.getpid():
                self._client = os.getpid(), _client(self.where)
            return self._client[1]


def _query(asked: Mapping[str, Any], client: Any) -> Any:
    return client.query(**asked)


def _met(reason: Mapping[str, Any]) -> Item | None:
    return dict(reason.get("Item", {})) if reason.get("Code") == "ConditionalCheckFailed" else None


def _client(where: TableUrl) -> Any:
    from botocore.config import Config

    config = Config(
        connect_timeout=_CONNECT_S,
        read_timeout=_SILENCE_S,
        max_pool_connections=_CONNECTIONS,
        retries={"total_max_attempts": 1},  # burst.core.retrying does it
    )
    session = aws_session()
    return session.client(
        "dynamodb",
        endpoint_url=where.options.get("endpoint_url"),
        region_name=where.options.get("region") or region_of(session),
        config=config,
    )


def equal(attribute: str, value: str) -> tuple[str, dict[str, Any]]:
    """A key condition and its values."""
    return f"{attribute} = :{attribute}", {f":{attribute}": text(value)}
