"""A Kubernetes cluster in virtual time, behind the same port as the real one; it shares nothing with the code that decides."""

from simulator.cluster.cluster import Cluster

__all__ = ["Cluster"]

PUBLIC = ("kubelet", "store")
"""Files that the rest of the project may import; the others are this package's inside."""
