"""What a checkpoint is on disk, readable without torch."""
