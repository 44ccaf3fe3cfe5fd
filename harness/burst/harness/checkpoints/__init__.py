"""Saving a trial's whole state and restoring it equal."""
