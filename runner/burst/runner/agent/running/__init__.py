"""Processes: started, guarded, asked to leave, ended."""
