"""Reads a whole cluster from its API server, and writes it as one document, with or without its names."""

PUBLIC = ("live", "names", "organisation", "own_state")
"""Files that the rest of the project may import; the others are this package's inside."""
