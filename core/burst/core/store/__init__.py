"""Where records are kept: one port, several adapters, one contract suite."""
