"""Rows by which runs of the functions keep out of each other's way and learn of each other's work."""
