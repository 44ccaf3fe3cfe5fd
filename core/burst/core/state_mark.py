"""How a folder that burst keeps state in is told from the user's own."""

from __future__ import annotations

STATE_MARK = ".burst-state"
"""A file in every folder that burst keeps state in; such a folder is never part of the code."""
