"""Implementations of the ports over the real services."""
