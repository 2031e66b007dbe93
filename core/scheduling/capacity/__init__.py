"""What holds pods: existing nodes, NodeClaim templates and claims in flight, with daemons and limits taken off."""
