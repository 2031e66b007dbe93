"""What a period cost, who caused it, against which baselines, and what kept it from costing less."""
