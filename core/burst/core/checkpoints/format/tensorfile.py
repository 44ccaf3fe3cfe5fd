"""The safetensors layout, without torch: eight bytes of length, a JSON header, then the bytes.

Used where bytes are laid out (the engine writes images whose header it knows beforehand) and where
they are moved without being understood (`burst checkpoint download`). The header is padded with
spaces so that data begins on a 64-byte boundary, and tensors come by falling element size, so that
every tensor is aligned to its own.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ELEMENT_BYTES: Mapping[str, int] = {
    "C64": 8, "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "BF16": 2, "F16": 2,
    "I16": 2, "U16": 2, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I8": 1, "U8": 1,
}  # fmt: skip
STORED_AS: Mapping[str, tuple[str, int]] = {
    "bool": ("BOOL", 1), "uint8": ("U8", 1), "int8": ("I8", 1), "uint16": ("U16", 1),
    "int16": ("I16", 1), "uint32": ("U32", 1), "int32": ("I32", 1), "uint64": ("U64", 1),
    "int64": ("I64", 1), "float16": ("F16", 1), "bfloat16": ("BF16", 1), "float32": ("F32", 1),
    "float64": ("F64", 1), "complex32": ("F16", 2), "complex64": ("C64", 1),
    "complex128": ("F64", 2), "float8_e4m3fn": ("F8_E4M3", 1), "float8_e5m2": ("F8_E5M2", 1),
    "float8_e8m0fnu": ("F8_E8M0", 1), "float8_e4m3fnuz": ("U8", 1), "float8_e5m2fnuz": ("U8", 1),
    "float4_e2m1fn_x2": ("U8", 1),
}  # fmt: skip
"""By torch's name of a dtype: the type in the header, and how many of it make one element."""
_LENGTH = struct.Struct("<Q")
_ALIGN = 64
_THEIR_ALIGN = 8
_THEIR_ORDER = (
    "U64", "I64", "F64", "C64", "F32", "U32", "I32", "BF16", "F16", "U16", "I16", "F8_E8M0",
    "F8_E4M3", "F8_E5M2", "I8", "U8", "BOOL",
)  # fmt: skip
"""Of types, in files that the safetensors library writes."""
_MAX_HEADER = 100_000_000  # the bound that the safetensors library has, too


@dataclass(frozen=True)
class Entry:
    """One tensor of a file: what it is, and where its bytes lie counted from the file's start."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int = 0

    @property
    def size(self) -> int:
        """Bytes."""
        return math.prod(self.shape) * ELEMENT_BYTES[self.dtype]

    @property
    def stop(self) -> int:
        return self.start + self.size


def entry_of(name: str, dtype: str, shape: tuple[int, ...]) -> Entry:
    """The entry, not placed yet, of a tensor of the dtype that torch calls `dtype`."""
    stored, width = STORED_AS[dtype]
    return Entry(name, stored, shape if width == 1 else (*shape, width))


def lay_out(
    tensors: Sequence[Entry], metadata: Mapping[str, str] | None = None
) -> tuple[bytes, list[Entry]]:
    """The header of a file of `tensors`, and these in the order and place they have in it.

    The file's size is the last entry's `stop`, or the header's length if there are none.
    """
    ordered = sorted(tensors, key=lambda entry: -ELEMENT_BYTES[entry.dtype])
    return _lay_out(ordered, metadata)


def lay_out_as_library(
    tensors: Sequence[Entry], metadata: Mapping[str, str] | None = None
) -> tuple[bytes, list[Entry]]:
    """Like `lay_out`, byte for byte as the safetensors library's `save_file` lays them out: by
    type, then by name, with data from an 8-byte boundary on."""
    ordered = sorted(tensors, key=lambda entry: (_THEIR_ORDER.index(entry.dtype), entry.name))
    return _lay_out(ordered, metadata, align=_THEIR_ALIGN, escaped=False)


def _lay_out(
    ordered: Sequence[Entry],
    metadata: Mapping[str, str] | None,
    *,
    align: int = _ALIGN,
    escaped: bool = True,
) -> tuple[bytes, list[Entry]]:
    """`escaped`: whether what is not ASCII is escaped in the header."""
    table: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    offset = 0
    offsets = []
    for entry in ordered:
        table[entry.name] = {
            "dtype": entry.dtype,
            "shape": list(entry.shape),
            "data_offsets": [offset, offset + entry.size],
        }
        offsets.append(offset)
        offset += entry.size
    if len(table) != len(ordered) + bool(metadata):
        raise ValueError("two tensors of one file have the same name")
    text = json.dumps(table, separators=(",", ":"), ensure_ascii=escaped).encode()
    text += b" " * (-(len(text) + _LENGTH.size) % align)
    header = _LENGTH.pack(len(text)) + text
    placed = [
        Entry(entry.name, entry.dtype, entry.shape, len(header) + start)
        for entry, start in zip(ordered, offsets, strict=True)
    ]
    return header, placed


def read_header(data: bytes | bytearray | memoryview) -> dict[str, Entry]:
    """The tensors of a file, by name, from its bytes (its first ones are enough).

    Raises:
        ValueError: if these are not the bytes of such a file.
    """
    view = memoryview(data)
    if len(view) < _LENGTH.size:
        raise ValueError("shorter than the length of its header")
    (length,) = _LENGTH.unpack_from(view)
    base = _LENGTH.size + length
    if length > _MAX_HEADER or len(view) < base:
        raise ValueError("shorter than its header")
    try:
        table = json.loads(bytes(view[_LENGTH.size : base]), object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("its header is nested too deeply") from None
    if not isinstance(table, dict):
        raise ValueError("its header is no mapping")
    table.pop("__metadata__", None)
    entries = {name: _entry(name, item, base) for name, item in table.items()}
    end = base
    for entry in sorted(entries.values(), key=lambda entry: (entry.start, entry.stop)):
        if entry.start != end:
            raise ValueError(f"{entry.name!r} does not begin where what is before it ends")
        end = entry.stop
    return entries


def _once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("its header has a name twice")
    return table


def _entry(name: str, item: object, base: int) -> Entry:
    known = isinstance(item, dict) and item.keys() >= {"dtype", "shape", "data_offsets"}
    if not known or not isinstance(item, dict):
        raise ValueError(f"the header's entry of {name!r} is malformed")
    shape, offsets, dtype = item["shape"], item["data_offsets"], item["dtype"]
    if not _are_counts(shape) or not _are_counts(offsets) or len(offsets) != 2:
        raise ValueError(f"the header's entry of {name!r} is malformed")
    if dtype not in ELEMENT_BYTES:
        raise ValueError(f"{name!r} has a dtype that is not known, {dtype!r}")
    entry = Entry(name, dtype, tuple(shape), base + offsets[0])
    if entry.size != offsets[1] - offsets[0]:
        raise ValueError(f"the size of {name!r} does not follow from its shape")
    return entry


def _are_counts(values: object) -> bool:
    return isinstance(values, list) and all(type(v) is int and v >= 0 for v in values)
