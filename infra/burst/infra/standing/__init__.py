"""Whether what was built still is as the cluster file says, and nodes can do their work in it."""
