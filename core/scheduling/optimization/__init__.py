"""Cheaper nodes for a finished greedy plan, and a proven lower bound on what any plan costs."""
