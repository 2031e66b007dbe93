"""The free addresses of subnets within one plan; loaded only where a subnet has few."""
