"""The process on a node: joins, keeps a lease, runs allocations, ships what they say, leaves."""
