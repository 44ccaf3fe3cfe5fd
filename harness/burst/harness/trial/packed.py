"""Whether a model keeps the documents of packed rows apart."""

from __future__ import annotations

from typing import Any

from burst.harness.trial.context import PyTorchTrialContext

_POSITIONS = "position_ids"


def check_packed(loader: Any, context: PyTorchTrialContext) -> None:
    """Warn of a model of transformers that keeps a cache while it is trained on packed rows: only
    without one does it tell documents by their positions, and it says nothing of it."""
    rows = getattr(loader, "dataset", None)
    if _POSITIONS not in (getattr(rows, "column_names", None) or ()):
        return
    caching = [m for m in context.models if getattr(_config(m), "use_cache", False) is True]
    if caching:
        context.session.warn(
            "data.documents_mixed",
            f"rows are packed, and {type(caching[0]).__name__} attends from one document of them "
            "to others, as its config has use_cache=True; set `model.config.use_cache = False`",
        )


def _config(model: Any) -> Any:
    config = getattr(model, "config", None)
    return config if hasattr(config, "to_json_string") else None  # transformers' own kind
