"""Launches nodes for pending pods, and reports pods that get none."""
