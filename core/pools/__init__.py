"""Determines what the NodePools may launch and at which prices, for planning, launching and disruption alike."""
