"""Pools: where nodes come from."""

from __future__ import annotations

from burst.runner.pools.open import open_gone, open_pools

__all__ = ["open_gone", "open_pools"]
