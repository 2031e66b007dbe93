"""Observe: reads the cluster, the table and the catalogue, and joins them into one snapshot."""
