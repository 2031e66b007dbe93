"""Instances, fleets, launch templates and status checks in EC2."""
