"""Small values with rules of their own: quantities, durations, label syntax, requirements, taints."""

PUBLIC = ("commitment", "quantity", "quotas", "requirements", "taints")
"""Files that the rest of the project may import; the others are this package's inside."""
