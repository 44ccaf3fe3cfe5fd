"""What can be wrong with data, its order or its loader."""

from __future__ import annotations

from burst.core.errors import BurstError


class DataError(BurstError):
    """The data, or the way it is asked for, cannot give the batches that training needs."""


class RowsRefused(DataError):
    """The rows break the rules that the experiment has for them, and will every time."""
