"""Reserved instances and Savings Plans as what covers nodes: up to an amount, and nothing beyond it."""
