"""Classifies pods: whether a pod waits for a node, whether it moves when its node is removed, and what budgets allow."""
