"""NodePools with `replicas` (Karpenter's gate StaticCapacity): so many nodes, whatever pods there are."""
