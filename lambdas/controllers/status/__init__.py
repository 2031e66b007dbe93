"""Writes the status of users' objects."""
