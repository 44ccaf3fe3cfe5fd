"""Chance for what is burst's own: waiting times, ids, which page of a file to look at.

Much of burst runs in the process that trains, and in threads beside it. The generators of Python's
`random` module are the user's there, and part of what a trial restores: whoever else draws from
them makes two runs of one seed differ.
"""

from __future__ import annotations

import random

chance = random.SystemRandom()
"""Draws from the system, and so has no state that anybody could disturb."""
