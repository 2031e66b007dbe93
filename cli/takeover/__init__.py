"""Nodes change hands between Karpenter and the functions: what `adopt` and `release` look at and do."""
