"""The embedded EC2: instances, fleets, templates, networks, images, reservations, quotas."""
