"""Finds cheaper nodes for a finished greedy plan, and a proven lower bound on the cost of any plan."""

PUBLIC = ("items", "relaxed_pods", "repacker", "subproblem")
"""Files that the rest of the project may import; the others are this package's inside."""
