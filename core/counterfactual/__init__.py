"""Simulates a fleet over recorded snapshots: what would run, cost and move under other settings."""
