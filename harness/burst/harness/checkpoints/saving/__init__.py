"""A save, from the live state to the durable checkpoint."""
