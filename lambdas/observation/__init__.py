"""Observe: what one run sees of the cluster, the table and the catalogue, joined into one snapshot."""
