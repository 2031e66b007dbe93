"""`adopt`, `release` and `switch`: the transfer of nodes between Karpenter and the functions."""

PUBLIC = ("guided", "steps")
"""Files that the rest of the project may import; the others are this package's inside."""
