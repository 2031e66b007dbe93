"""The slow round, and the catalogue."""
