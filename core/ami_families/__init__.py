"""AMI families: everything that differs between types of machine images; one module per family and one line in `registry`."""

PUBLIC = ("al2023", "bottlerocket", "family", "registry")
"""Files that the rest of the project may import; the others are this package's inside."""
