"""What lies in the files of a checkpoint."""
