"""Computes one plan by first fit: existing nodes, claims of the plan, then a new claim from the first suitable NodePool."""
