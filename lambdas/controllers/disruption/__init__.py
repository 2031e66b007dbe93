"""Decides which nodes go, validates each decision, and carries it out or abandons it."""
