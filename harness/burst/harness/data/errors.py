"""What can be wrong with data, its order or its loader."""

from __future__ import annotations

from burst.core.errors import BurstError


class DataError(BurstError):
    """The data, or the way it is asked for, cannot give the batches that training needs."""
