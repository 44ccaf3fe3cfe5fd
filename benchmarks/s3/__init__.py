"""What `benchmarks.s3_transfer` needs: a server that costs nothing, and the clients compared."""
