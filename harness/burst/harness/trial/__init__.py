"""The trial API and the loop that drives it."""
