"""Contract suites that every adapter of the runner's ports inherits."""
