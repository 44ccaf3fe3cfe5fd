"""Batches in an order that depends on seed and epoch only, at a position that is a number."""
