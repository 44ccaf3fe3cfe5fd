"""Hypothesis strategies for records: any value that a field can hold."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from burst.core.model import RECORDS, Event, Lengths, MetricChunk, MetricPoint, MetricRow, Record
from burst.core.testing import examples

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
FLOAT = st.floats(allow_nan=True, allow_infinity=True)
TIME = st.floats(min_value=0, max_value=4e9)
COUNT = st.integers(min_value=0, max_value=2**53)
METRICS = st.dictionaries(TEXT, FLOAT, max_size=4)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TIME | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
JSON_OBJECT = st.dictionaries(TEXT, JSON, max_size=3)

METRIC_ROWS = st.builds(MetricRow, batches=COUNT, at=TIME, metrics=METRICS)
METRIC_POINTS = st.builds(MetricPoint, batches=COUNT, at=TIME, metrics=METRICS)
METRIC_CHUNKS = st.builds(
    MetricChunk,
    trial=st.just(examples.TRIAL),
    attempt=st.integers(1, 4),
    group=st.sampled_from(["training", "validation", "hardware"]),
    seq=st.integers(0, 5),
    base=st.integers(0, 20),
    rows=st.lists(METRIC_ROWS, max_size=5).map(tuple),
)
EVENTS = st.builds(Event, subject=TEXT, experiment=TEXT, name=TEXT, text=TEXT, at=TIME)

for _type, _strategy in (
    (MetricPoint, METRIC_POINTS),
    (MetricRow, METRIC_ROWS),
    (
        Lengths,
        st.builds(Lengths, batches=COUNT, records=COUNT, epochs=FLOAT, seconds=FLOAT),
    ),
):
    st.register_type_strategy(_type, _strategy)

_BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    "config": JSON_OBJECT,
    "search": JSON_OBJECT,
    "hparams": JSON_OBJECT,
    "handle": JSON_OBJECT,
    "facts": JSON_OBJECT,
    "ask": JSON_OBJECT,
    "network": JSON_OBJECT,
    "metrics": METRICS,
    "latest": st.dictionaries(TEXT, METRIC_POINTS, max_size=2),
    "version": COUNT,
    "source": TEXT,
}
_BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {str: TEXT, float: FLOAT, int: COUNT}


def records() -> st.SearchStrategy[Record]:
    """Any record of any kind."""
    return st.one_of([_records_of(kind) for kind in RECORDS])


def _records_of(kind: type[Record]) -> st.SearchStrategy[Record]:
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for name, field in kind.model_fields.items():
        annotation: Any = field.annotation
        plain = _BY_TYPE.get(annotation, st.from_type(annotation))
        fields[name] = _BY_NAME.get(name, plain)
    return st.builds(kind, **fields)
