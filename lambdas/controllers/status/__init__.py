"""What users see in the status of their objects."""
