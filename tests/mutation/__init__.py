"""Mutation testing: deliberate faults, and whether the tests of their own area notice them."""
