"""A Trainer itself: what of its training is reported, saved, and gone on with."""
