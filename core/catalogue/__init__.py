"""Builds instance types for decisions from EC2's type descriptions, a market and an EC2NodeClass."""
