"""Nodes that differ from what their NodePools ask for: those of deleted pools, and the number of static ones."""
