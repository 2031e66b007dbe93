"""The cost of a period: who caused it, what the baselines are, and what kept it from being lower."""
