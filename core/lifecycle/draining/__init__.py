"""Drains a node: evictions, escalation, surge, and the termination of the instance."""
