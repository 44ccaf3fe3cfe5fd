"""The agent itself: joining, its lease, what it hears, and leaving."""
