"""NodePools with `replicas` (Karpenter's gate StaticCapacity): a fixed number of nodes, regardless of pods."""
