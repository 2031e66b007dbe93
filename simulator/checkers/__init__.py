"""The judges of a run. They read only the record, and share no code with the functions under test."""

PUBLIC = ("disruption", "pods", "remains")
"""Files that the rest of the project may import; the others are this package's inside."""
