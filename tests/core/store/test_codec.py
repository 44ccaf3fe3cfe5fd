"""Records survive the way through bytes, whatever is in them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from burst.core.errors import StoreError
from burst.core.model import RECORDS, Event, MetricChunk, Record, Trial
from burst.core.store import codec
from burst.core.testing import examples, strategies


@given(strategies.records())
def test_any_record_comes_back_equal(record: Record) -> None:
    body = codec.encode_record(record)
    back = codec.decode_record(type(record), body)
    assert repr(back) == repr(record.model_copy(update={"version": record.version + 1}))
    assert codec.encode_record(back.model_copy(update={"version": record.version})) == body


@given(strategies.EVENTS)
def test_any_event_comes_back_equal(event: Event) -> None:
    assert codec.decode_event(codec.encode_event(event)) == event


@given(strategies.METRIC_CHUNKS)
def test_any_metric_chunk_comes_back_equal_from_the_same_bytes(chunk: MetricChunk) -> None:
    body = codec.encode_chunk(chunk)
    assert repr(codec.decode_chunk(body)) == repr(chunk)
    assert codec.encode_chunk(chunk) == body


@given(strategies.records())
def test_stored_bytes_are_json_for_any_reader(record: Record) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    json.loads(codec.encode_record(record), parse_constant=refuse)


def test_every_kind_of_record_has_its_own_name() -> None:
    assert len({kind.kind for kind in RECORDS}) == len(RECORDS)
    assert {type(record) for record in examples.records()} == set(RECORDS)


def test_what_cannot_be_read_names_the_kind_and_the_cause() -> None:
    with pytest.raises(StoreError, match="kind 'trial'") as caught:
        codec.decode_record(Trial, b'{"id": "x"}')
    assert "Field required" in caught.value.why
