"""The experiment's rules for data (`data.validate`), applied to what a trial's loaders give."""

from __future__ import annotations

from typing import Any

from burst.harness.data import DataError, DataLoader
from burst.harness.data.checks import is_stream
from burst.harness.trial.context import PyTorchTrialContext


def ruled(loader: Any, context: PyTorchTrialContext, name: str) -> Any:
    """The loader over the rows that keep the rules; itself where there are none.

    Args:
        name: what its rows are called.

    Raises:
        DataError: rows break a rule that says `fail`, or rows are left out that a sampler numbers.
        ConfigError: the rules cannot be read.
    """
    if not context.get_data_config().get("validate") or not isinstance(loader, DataLoader):
        return loader
    from burst.harness.data.gather import is_hugging_face
    from burst.harness.data.text.checking import checked

    rows = loader.dataset
    streams = is_stream(rows) and hasattr(rows, "_ex_iterable")  # Hugging Face's own
    if not streams and not is_hugging_face(rows):
        context.session.warn(
            "data.unchecked",
            f"the {name} are a {type(rows).__name__}, which `data.validate` cannot look into; "
            "give what it is made of to `checked` of burst.harness.data",
        )
        return loader
    kept = checked(rows, context=context, name=name, vocabulary=_vocabulary(context))
    if kept is rows:
        return loader
    if loader.sampler is not None or loader.batch_sampler is not None:
        raise DataError(
            f"`data.validate` leaves out {name}, whose loader has a sampler",
            why="a sampler numbers the rows, and the numbers are others now",
            mend="call checked(rows, context=self.context) before the sampler is made",
        )
    return loader.over(kept)


def _vocabulary(context: PyTorchTrialContext) -> int | None:
    """How many ids every wrapped model of transformers has an embedding for; None without one."""
    configs = (getattr(model, "config", None) for model in context.models)
    sizes = [getattr(config, "vocab_size", None) for config in configs]
    return min((size for size in sizes if isinstance(size, int)), default=None)
