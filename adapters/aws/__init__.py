"""Ports over AWS: translates boto3 into the project's types and errors."""

PUBLIC = ("brakes", "instance_profiles", "market", "quotas", "services", "session")
"""Files that the rest of the project may import; the others are this package's inside."""
