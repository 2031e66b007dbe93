"""Disruption commands: the second look at those that are due, and what becomes of each."""
