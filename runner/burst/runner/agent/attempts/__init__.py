"""One allocation on this node, from taking it up to its last line of log."""
