"""Contract suites that every adapter of a port inherits, and records to test with.

Needs pytest and hypothesis, which burst itself does not.
"""
