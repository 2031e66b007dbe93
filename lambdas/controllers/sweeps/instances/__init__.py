"""Sweeps that bring EC2 instances and claims together again."""
