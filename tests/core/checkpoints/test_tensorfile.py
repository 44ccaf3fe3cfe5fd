"""The safetensors layout, against the library that defines it."""

from __future__ import annotations

import itertools
import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

from burst.core.checkpoints.format.tensorfile import (
    ELEMENT_BYTES,
    STORED_AS,
    Entry,
    entry_of,
    lay_out,
    read_header,
)

_entries = st.lists(
    st.tuples(
        st.text(st.characters(codec="utf-8"), max_size=8),
        st.sampled_from(sorted(ELEMENT_BYTES)),
        st.lists(st.integers(0, 4), max_size=3).map(tuple),
    ),
    max_size=6,
    unique_by=lambda item: item[0],
).map(lambda items: [Entry(*item) for item in items if item[0] != "__metadata__"])


def _file(entries: list[Entry]) -> bytes:
    header, placed = lay_out(entries, {"format": "pt"})
    return header + bytes(sum(entry.size for entry in placed))


@given(_entries)
def test_a_header_reads_back_and_every_tensor_is_aligned(entries: list[Entry]) -> None:
    found = read_header(_file(entries))
    assert {(e.name, e.dtype, e.shape) for e in found.values()} == {
        (e.name, e.dtype, e.shape) for e in entries
    }
    assert all(e.start % ELEMENT_BYTES[e.dtype] == 0 for e in found.values())
    spans = sorted((e.start, e.stop) for e in found.values())
    assert all(one[1] == two[0] for one, two in itertools.pairwise(spans))


@given(_entries)
def test_the_library_reads_what_is_laid_out(
    tmp_path_factory: pytest.TempPathFactory, entries: list[Entry]
) -> None:
    path = tmp_path_factory.mktemp("file") / "x.safetensors"
    path.write_bytes(_file(entries))
    with safe_open(path, "pt") as opened:
        assert set(opened.keys()) == {entry.name for entry in entries}
        for entry in entries:
            assert tuple(opened.get_slice(entry.name).get_shape()) == entry.shape


@pytest.mark.parametrize("dtype", STORED_AS)
def test_every_dtype_takes_whole_elements_of_its_stored_one(dtype: str) -> None:
    entry = entry_of("x", dtype, (3,))
    assert entry.size % 3 == 0


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 7,
        struct.pack("<Q", 100) + b"{}",
        struct.pack("<Q", 2**60) + b"{}",
        struct.pack("<Q", 2) + b"{]",
    ],
)
def test_what_is_no_such_file_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - every reason is one
        read_header(data)


@pytest.mark.parametrize(
    "item",
    [
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 7]},
        {"dtype": "F32", "shape": 2, "data_offsets": [0, 8]},
    ],
)
def test_an_entry_whose_size_does_not_follow_is_refused(item: dict[str, object]) -> None:
    text = json.dumps({"x": item}).encode()
    with pytest.raises(ValueError, match="'x'"):
        read_header(struct.pack("<Q", len(text)) + text + bytes(8))


def test_two_tensors_of_one_name_are_a_defect() -> None:
    with pytest.raises(ValueError, match="same name"):
        lay_out([Entry("a", "F32", ()), Entry("a", "F32", ())])


def test_data_begins_on_a_boundary(tmp_path: Path) -> None:
    header, placed = lay_out([Entry("a" * 33, "U8", (5,))])
    assert len(header) % 64 == 0
    assert placed[0].start == len(header)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ('{"a":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}}', "malformed"),
        ('{"a":{"dtype":"F32","shape":[-2,-1],"data_offsets":[0,8]}}', "malformed"),
        ('{"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}}', "malformed"),
        ('{"a":{"dtype":"F32","shape":[true],"data_offsets":[0,4]}}', "malformed"),
        ('{"a":{"dtype":"Q7","shape":[2],"data_offsets":[0,8]}}', "dtype that is not known"),
        ('{"a":[]}', "malformed"),
        ("[]", "no mapping"),
        ("[" * 200_000, "too deeply"),
        ('{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},'
         '"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}', "does not begin where"),
        ('{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},'
         '"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}}', "does not begin where"),
        ('{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
         '"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}', "twice"),
    ],
)  # fmt: skip
def test_a_header_that_lies_is_refused(header: str, words: str) -> None:
    text = header.encode()
    with pytest.raises(ValueError, match=words):
        read_header(len(text).to_bytes(8, "little") + text + bytes(16))
