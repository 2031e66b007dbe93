"""`adopt` and `release`: the transfer of nodes between Karpenter and the functions."""

PUBLIC = ("steps",)
"""Files that the rest of the project may import; the others are this package's inside."""
