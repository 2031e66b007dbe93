"""A function invoked in virtual time: its sandbox, its calls to the outside, their duration and their faults."""

PUBLIC = ("faults", "sandbox")
"""Files that the rest of the project may import; the others are this package's inside."""
