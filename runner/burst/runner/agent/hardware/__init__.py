"""What the machine is, has, and does."""
