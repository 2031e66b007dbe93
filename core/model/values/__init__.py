"""Small values with rules of their own: quantities, durations, label syntax, requirements, taints."""
