"""Price terms: what an installation pays instead of EC2's list prices, or in addition."""
