"""Tells a script that trains with accelerate in a loop of its own that burst keeps nothing for it.

Such a script has no place where burst could take its state: it runs as it is.
"""

from __future__ import annotations

import os
import sys
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

from burst.core.launch import is_connected, read_launch

TEXT = (
    "burst: this script trains with accelerate in a loop of its own, of which nothing is kept: "
    "where it is interrupted, it begins again, unless it uses burst.harness.init"
)


def patch(module: ModuleType) -> None:
    """Have `accelerate.accelerator.Accelerator` look at who makes the first one."""
    spec = read_launch()
    if spec is None or os.environ.get("RANK", "0") != "0":
        return
    made, original = module.Accelerator, module.Accelerator.__init__
    code, said = spec.path / "code", [False]

    @wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        maker = Path(sys._getframe(1).f_code.co_filename)
        if not said[0] and maker.is_relative_to(code) and not is_connected(spec.path):
            said[0] = True
            print(TEXT, file=sys.stderr, flush=True)
        original(self, *args, **kwargs)

    made.__init__ = __init__
