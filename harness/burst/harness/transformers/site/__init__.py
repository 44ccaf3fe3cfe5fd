"""The folder that the launcher puts first on PYTHONPATH for a command: every Python that the
command starts runs its `sitecustomize` before anything else."""
