"""Reserved instances and Savings Plans: commitments that cover nodes up to an amount."""
