"""Decides which nodes go, checks each decision again, and carries it out or gives it up."""
