"""Drains a node: closes it to new pods, evicts or forces off its pods, and deletes the Node."""
