"""Records as something to look at: pure functions to strings and rich renderables."""
