"""Has accelerate, and so a Trainer, train in a process alone as one without a launcher does.

burst tells every process its rank as torch's launcher does. accelerate takes any such word for a
gang, even of one, and wraps the model for it: copies of gradients that nobody needs, and a model
of another class than the script has when a person runs it.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from types import ModuleType

_ASKED = ("TORCHELASTIC_RUN_ID", "ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED")
"""Left by a launcher of the command's own: then a gang of one is what was asked for."""


def patch(module: ModuleType) -> None:
    """Change nothing of `accelerate.state` but the environment that it goes by."""
    forget_gang_of_one(os.environ)


def forget_gang_of_one(environ: MutableMapping[str, str]) -> None:
    """Take the local rank out of an environment that burst has made for one process."""
    if environ.get("WORLD_SIZE") == "1" and not any(name in environ for name in _ASKED):
        environ.pop("LOCAL_RANK", None)
