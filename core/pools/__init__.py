"""What the NodePools may launch and at which prices: read by planning, launching and disruption alike."""
