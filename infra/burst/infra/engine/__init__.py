"""Pulumi as a library: its command is found or installed, and told what to do with one stack."""
