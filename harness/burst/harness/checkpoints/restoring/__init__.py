"""A checkpoint, back into the live state."""
