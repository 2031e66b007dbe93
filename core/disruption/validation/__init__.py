"""Checks stored commands once more before they start."""
