"""Nodes change hands between Karpenter and us, in either direction, without a pod or an instance taking notice."""
