"""Classifies pods: whether one waits for a node, whether it moves when its node goes, and what budgets allow."""
