"""Pools: where nodes come from."""
