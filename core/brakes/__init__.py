"""Brakes: what stops launches or disruption from outside the cluster, and which actions each brake stops."""
