"""The agent on a machine that burst has launched: who it is, what it hears, and how it ends."""
