"""Pulumi's engine, driven from Python: where it comes from, what it does, what it says."""
