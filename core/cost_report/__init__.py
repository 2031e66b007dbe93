"""The cost of a period: its causes, its baselines, and what kept it from being lower."""
