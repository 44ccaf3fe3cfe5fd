"""The user's code on its way to a node: packed by content, unpacked with suspicion."""
