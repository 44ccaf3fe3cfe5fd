"""What a Trainer of transformers logged, as the file that it writes beside its own checkpoints."""

from __future__ import annotations

import json
from typing import Any

from burst.core.model import Json

KEPT_AS = "transformers.Trainer"
"""The name among a checkpoint's callbacks under which a Trainer's own state lies."""
FILE = "trainer_state.json"


def trainer_texts(tree: Json) -> dict[str, bytes | int]:
    """`trainer_state.json`, by its path; nothing where no Trainer trained."""
    callbacks = tree.get("callbacks") if isinstance(tree, dict) else None
    kept: Any = callbacks.get(KEPT_AS) if isinstance(callbacks, dict) else None
    if not isinstance(kept, dict) or not isinstance(kept.get("history"), str):
        return {}
    history = [json.loads(line) for line in kept["history"].splitlines()]
    table = {**kept["trainer"], "log_history": history}
    return {FILE: (json.dumps(table, indent=2, sort_keys=True) + "\n").encode()}
