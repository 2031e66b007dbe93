"""Brakes that stop this system from outside the cluster, and what each of them stops."""
