"""States that are spread over ranks: who writes what, and who reads what.

chunks = divide(encoded, collective, alike)     what this rank writes, without a collective
agree(encoded, collective, alike)               later: did all ranks divide the same?

for ref, live in zip(state.tensors, targets(state, into)):
    target = empty(ref) if live is None else live
    for read in wanted(ref, target):
        scatter(bytes_of(read.file, read.name), read, target)
"""

from __future__ import annotations

from burst.harness.checkpoints.codec.sharding import is_sharded, local_of, shard_like, spread
from burst.harness.checkpoints.shards.division import Chunk, agree, divide, owned_by, undivided
from burst.harness.checkpoints.shards.read import (
    Like,
    Move,
    Read,
    empty,
    scatter,
    targets,
    wanted,
)

__all__ = [
    "Chunk",
    "Like",
    "Move",
    "Read",
    "agree",
    "divide",
    "empty",
    "is_sharded",
    "local_of",
    "owned_by",
    "scatter",
    "shard_like",
    "spread",
    "targets",
    "undivided",
    "wanted",
]
