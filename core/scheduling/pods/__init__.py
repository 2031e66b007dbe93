"""Pending pods, their demands, and which of them are alike."""
