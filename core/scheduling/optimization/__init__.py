"""Finds cheaper nodes for a finished greedy plan, and a proven lower bound on the cost of any plan."""
