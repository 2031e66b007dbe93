"""Converts a packing back to NodeClaims that keep every rule of the plan."""
