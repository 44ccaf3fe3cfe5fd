"""Exact position in the data of a Trainer: which batches it was given, and how to go on.

`follow` attaches to the loader that the Trainer made. It keeps, with the random states of the few
moments that matter, how many batches were given out, and later has a pass begin right there: with
the batches, and the random states in each of them, that an uninterrupted run would have.
"""

from burst.harness.transformers.trainer.loading.attaching import follow, followed_of, generators_of
from burst.harness.transformers.trainer.loading.following import Followed

__all__ = ["Followed", "follow", "followed_of", "generators_of"]
