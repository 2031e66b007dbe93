"""Instances, fleets, launch templates and status checks in EC2."""

PUBLIC = ("fleet",)
"""Files that the rest of the project may import; the others are this package's inside."""
