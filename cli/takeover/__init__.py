"""`adopt` and `release`: the transfer of nodes between Karpenter and the functions."""
