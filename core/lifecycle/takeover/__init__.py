"""Transfers nodes between Karpenter and us, in either direction, without effect on pods and instances."""
