"""Pending pods, their demands, and the groups of equal pods."""
