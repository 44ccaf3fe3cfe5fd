"""A trial's checkpoints in several places."""
