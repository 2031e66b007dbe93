"""Topology spread and pod affinity: the groups of a snapshot, their counts, and the domain of each new node."""
