"""Trainer's scripts for the benchmark of them: under burst, and alone, in one process."""
