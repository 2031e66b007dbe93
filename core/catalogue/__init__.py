"""Builds instance types for decisions from EC2's type descriptions, a market and an EC2NodeClass."""

PUBLIC = ("build", "capacity", "document", "free_addresses", "kubelet", "node_class", "node_memory", "reservations")
"""Files that the rest of the project may import; the others are this package's inside."""
