"""Every speed burst claims, measured beside a peer or a limit in the same run."""
