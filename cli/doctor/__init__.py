"""Finds obstacles in an account or a cluster before a deployment, and checks afterwards that it works."""

PUBLIC = ("cluster", "network", "probe", "recording")
"""Files that the rest of the project may import; the others are this package's inside."""
