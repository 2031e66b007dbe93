"""Sweeps over Node objects."""
