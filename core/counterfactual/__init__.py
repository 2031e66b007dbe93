"""Simulates a fleet over recorded snapshots: what would run, cost and move under other settings."""

PUBLIC = ("overrides", "simulated_fleet", "simulation")
"""Files that the rest of the project may import; the others are this package's inside."""
