"""A training state as a tree: what JSON can say of it, and the tensors in it."""
