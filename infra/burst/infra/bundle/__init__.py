"""burst itself, packed for machines that have none."""
