"""Observe: reads the cluster, the table and the catalogue, and joins them into one snapshot."""

PUBLIC = ("cluster_reader", "observer", "stores")
"""Files that the rest of the project may import; the others are this package's inside."""
