"""Sweeps over NodePools: nodes of deleted pools, and the number of nodes of static ones."""
