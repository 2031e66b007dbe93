"""Determines what NodePools may launch and at which prices, for planning, launching and disruption alike."""
