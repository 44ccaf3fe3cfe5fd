"""What is made, by what belongs together: one Pulumi component a module."""
