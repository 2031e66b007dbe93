"""Opens ledgers for the commands: a folder, or a bucket with the user's own permissions."""

PUBLIC = ("entries", "parallel_simulation")
"""Files that the rest of the project may import; the others are this package's inside."""
