"""Topology spread and pod affinity: the topology groups of a snapshot, their counts, and the domains of new nodes."""
