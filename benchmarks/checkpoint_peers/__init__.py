"""What the benchmark of checkpoints saves, and who saves it."""
