"""What the library says of itself, on stderr."""

from __future__ import annotations

import logging
import sys


def log_to_stderr(level: int = logging.INFO) -> None:
    """One line a change of state, with its time; from WARNING up, without."""
    handler = logging.StreamHandler(sys.stderr)
    form = "%(asctime)s %(message)s" if level <= logging.INFO else "%(levelname)s: %(message)s"
    handler.setFormatter(logging.Formatter(form, "%H:%M:%S"))
    logger = logging.getLogger("burst")
    logger.addHandler(handler)
    logger.setLevel(level)
