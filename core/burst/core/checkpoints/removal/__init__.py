"""Using files again, and taking away what nothing needs."""
