"""Schemas of each kind: its fields, their allowed values, and the rules between them."""

PUBLIC = ("calendar", "ec2_node_class", "fields", "node_pool")
"""Files that the rest of the project may import; the others are this package's inside."""
