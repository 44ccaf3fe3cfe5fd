"""Property values of the double of Pulumi's engine: as the wire has them, and as state has them.

A value is JSON. Secrets, files and archives are objects with a signature in them, which are the
real ones (sdk/go/common/resource of Pulumi); so a value in memory looks as it does on the wire.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from google.protobuf import struct_pb2  # type: ignore[import-untyped]

SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"
ASSET = "c44067f5952c0a294b673a41bacd8c17"
ARCHIVE = "0def7320c3a5731c473e5ecbe6d01bc7"
RESOURCE = "5cf8f73096256a8f31e491e813e4eb8e"
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""Stands for what nobody can know before it is made."""

Props = dict[str, Any]


class Watched(dict[str, Any]):
    """Properties that remember which of them somebody has looked at."""

    def __init__(self, props: Props) -> None:
        super().__init__(props)
        self.seen: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.seen.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.seen.add(key)
        return super().get(key, default)

    def items(self) -> Any:
        self.seen.update(self)
        return super().items()

    @property
    def unseen(self) -> list[str]:
        return sorted(key for key in self if key not in self.seen and not key.startswith("__"))


def from_struct(struct: struct_pb2.Struct) -> Props:
    """Whole numbers become ints: the wire has floats alone."""
    return {key: _from_value(value) for key, value in struct.fields.items()}


def _from_value(value: struct_pb2.Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return from_struct(value.struct_value)
    if kind == "list_value":
        return [_from_value(each) for each in value.list_value.values]
    if kind == "number_value":
        number = value.number_value
        return int(number) if number == int(number) else number
    return None if kind in (None, "null_value") else getattr(value, kind)


def to_struct(props: Mapping[str, Any]) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    struct.update(dict(props))
    return struct


def secret(value: Any) -> Props:
    return {SIGNATURE: SECRET, "value": value}


def is_secret(value: Any) -> bool:
    return isinstance(value, dict) and value.get(SIGNATURE) == SECRET


def is_file(value: Any) -> bool:
    return isinstance(value, dict) and value.get(SIGNATURE) in (ASSET, ARCHIVE)


def map_values(value: Any, change: Callable[[Any], Any]) -> Any:
    """`change` on every value, inner ones first."""
    if isinstance(value, dict):
        return change({key: map_values(each, change) for key, each in value.items()})
    if isinstance(value, list):
        return change([map_values(each, change) for each in value])
    return change(value)


def any_value(value: Any, wanted: Callable[[Any], bool]) -> bool:
    if wanted(value):
        return True
    return any(any_value(each, wanted) for each in children(value))


def revealed(value: Any) -> Any:
    """Without the wrapping of secrets, at any depth; a reference to a resource is its id."""

    def reveal(each: Any) -> Any:
        if is_secret(each):
            return each["value"]
        if isinstance(each, dict) and each.get(SIGNATURE) == RESOURCE:
            return each.get("id") or each["urn"]
        return each

    return map_values(value, reveal)


def masked(value: Any) -> Any:
    """As events and outputs show it."""
    return map_values(value, lambda each: "[secret]" if is_secret(each) else each)


def has_secret(value: Any) -> bool:
    return any_value(value, is_secret)


def secrets_in(value: Any, within: bool = False) -> list[str]:
    """The texts that are secret, at any depth; all of them if the value is `within` a secret."""
    if isinstance(value, str):
        return [value] if within and value else []
    within = within or is_secret(value)
    inner = [value["value"]] if is_secret(value) else children(value)
    return [word for each in inner for word in secrets_in(each, within)]


def children(value: Any) -> list[Any]:
    """What a value directly holds."""
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def hashed(props: Props) -> Props:
    """With the hash of each file and archive: their contents decide, not their names.

    Raises:
        OSError: one of them is not there.
    """

    def add(each: Any) -> Any:
        return (
            {**each, "hash": hashlib.sha256(bytes_of(each)).hexdigest()} if is_file(each) else each
        )

    return dict(map_values(props, add))


def bytes_of(value: Mapping[str, Any]) -> bytes:
    """What a file or an archive holds. An archive of several parts is told apart by their names
    and contents.

    Raises:
        OSError: it is not there.
    """
    if "text" in value:
        return str(value["text"]).encode()
    if "assets" in value:
        parts = sorted(value["assets"].items())
        return b"\0".join(name.encode() + b"\0" + bytes_of(part) for name, part in parts)
    path = Path(value["path"])
    if path.is_dir():
        found = sorted(each for each in path.rglob("*") if each.is_file())
        names = [each.relative_to(path).as_posix().encode() for each in found]
        return b"\0".join(
            name + b"\0" + each.read_bytes() for name, each in zip(names, found, strict=True)
        )
    return path.read_bytes()


def comparable(value: Any) -> Any:
    """Equal for values between which there is no difference that a provider sees."""

    def plain(each: Any) -> Any:
        if is_file(each) and "hash" in each:
            return (each[SIGNATURE], each["hash"])
        return each

    return map_values(revealed(value), plain)


def same_json(a: Any, b: Any) -> bool:
    """Whether two texts are the same JSON document; order and space do not count."""
    try:
        return bool(json.loads(a) == json.loads(b))
    except (TypeError, ValueError):
        return bool(a == b)
