"""What makes a run the same each time: seeds, threads and algorithms.

off      generators start wherever they start; data order is still exact, and so is resuming
seeded   every generator starts from the trial's seed, and libraries do not choose algorithms
         by timing them: the same machine gives the same bits for nearly every model
strict   seeded, and an operation that cannot be deterministic is an error instead
"""

from __future__ import annotations

import hashlib
import os
import random
import sys
from typing import Literal

Mode = Literal["off", "seeded", "strict"]

STRICT_MEND = (
    "use another operation, or set `reproducibility: {mode: seeded}`, which lets it run "
    "and no longer promises the same bits on a GPU"
)


def prepare(mode: Mode, threads: int | None) -> None:
    """Set threads and algorithms, before the first tensor is made."""
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    if mode == "off":
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    if mode == "strict":
        torch.use_deterministic_algorithms(True)


def explain(error: BaseException) -> None:
    """Add to torch's refusal of an operation, in strict mode, what can be done about it."""
    if "deterministic" in str(error) and isinstance(error, RuntimeError):
        error.add_note(f"Mend: {STRICT_MEND}")


def derive(seed: int, *labels: object) -> int:
    """A seed of 63 bits for one purpose, from the trial's seed and what the purpose is called."""
    text = "/".join(str(label) for label in (seed, *labels))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def seed_loaded(seed: int) -> None:
    """As `seed_all`, without importing a library that the script has not imported."""
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def seed_all(seed: int) -> None:
    """Start Python's, NumPy's and torch's generators, those of every device too, from a seed."""
    import numpy
    import torch

    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)
