"""Checkpoints that leave burst, and models that come in."""
