"""Pending pods, what they ask for, and which of them are alike."""
