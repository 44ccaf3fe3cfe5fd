"""What surrounds a Trainer in an unmodified script: its arguments, the hub, its ranks, its end."""
