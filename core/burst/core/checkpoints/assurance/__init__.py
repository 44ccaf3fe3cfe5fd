"""Whether checkpoints come, and would restore."""
