"""The sweeps of `reconcile`, one subject per module: repairs of what no event reported, or no run completed."""

PUBLIC = ("account", "claims", "due_work", "instances", "nodes", "rebuilding", "sweep")
"""Files that the rest of the project may import; the others are this package's inside."""
