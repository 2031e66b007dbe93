"""Sweeps that reconcile EC2 instances and claims."""
