"""What a period cost, for whom, against what, and what kept it from costing less."""
