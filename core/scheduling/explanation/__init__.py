"""Explains why a pod has no place."""
