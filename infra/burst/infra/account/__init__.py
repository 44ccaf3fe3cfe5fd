"""What a cluster has in its account, by names and tags alone: for what Pulumi cannot do, or has
forgotten."""
