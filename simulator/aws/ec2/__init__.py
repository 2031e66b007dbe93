"""The embedded EC2: instances, fleets, templates, networks, images, reservations, quotas."""

PUBLIC = ("boot", "fleet", "instances", "requests", "templates")
"""Files that the rest of the project may import; the others are this package's inside."""
