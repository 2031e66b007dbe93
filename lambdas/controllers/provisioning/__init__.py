"""Launches instances for pending pods, and reports on pods that get none."""
