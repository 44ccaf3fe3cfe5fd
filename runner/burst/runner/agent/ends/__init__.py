"""What became of the ranks: judgements of what they left, pure but for reading it."""
