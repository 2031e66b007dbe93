"""Topology spread and pod affinity: the topology groups of a snapshot, their counts, and the domains of new nodes."""

PUBLIC = ("domains", "groups", "pins")
"""Files that the rest of the project may import; the others are this package's inside."""
