"""State trees as JSON and tensors, without pickle: equal back, type for type and bit for bit.

`encode` turns a tree into a skeleton that JSON can hold and a list of tensors that it points into;
`skeletons.decode` is its inverse. Plain JSON stands for itself; everything else is
`{"$": [kind, ...]}`:

    {"lr": 0.1, "betas": {"$": ["tuple", 0.9, 0.999]}, "exp_avg": {"$": ["tensor", 3]}}

Tensors that share all of their memory (tied weights) are stored once and come back as one tensor.
A tensor comes back on the CPU, in the same memory format if it was dense. Of a DTensor, whose
elements lie on several ranks, the tree has what this rank has. A type that is not known
here is refused by its place in the tree; `register_state_type` teaches it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from burst.core.model import Json
from burst.harness.checkpoints.codec.encoding import Encoder, NamedTensor
from burst.harness.checkpoints.codec.places import Places
from burst.harness.checkpoints.garbage import no_collection

_kept: dict[str, Places] = {}
"""By the root that begins their names: what is free for the next encoding."""


@dataclass
class Encoded:
    root: str
    skeleton: Json = None
    tensors: list[NamedTensor] = field(default_factory=list)


def encode(tree: Any, root: str) -> Encoded:
    """The skeleton and the tensors of `tree`; `root` begins the names in errors.

    The tensors are the live ones, not copies. Nobody may change the skeleton: parts of it are used
    again for the next one.

    Raises:
        BurstError: for a value that cannot be represented, naming its place and type.
    """
    places = _kept.pop(root, None) or Places()  # whoever comes meanwhile, in a thread, has others
    encoder = Encoder(root, places)
    with no_collection(), torch.no_grad():  # once here, and not for every shard
        skeleton = encoder.node(tree, places.root)
    if places.settle():
        _kept[root] = places
    return Encoded(root, skeleton, encoder.tensors)
