"""Data in exact order: what a trial trains on, enterable at any batch."""

from burst.harness.data.collate import Padding
from burst.harness.data.errors import DataError
from burst.harness.data.loader import DataLoader
from burst.harness.data.port import BatchSource

__all__ = ["BatchSource", "DataError", "DataLoader", "Padding"]
