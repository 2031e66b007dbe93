"""The answers of the commands: documents for programs, tables for people."""

PUBLIC = ("difference", "periods", "plan", "savings", "simulation", "status")
"""Files that the rest of the project may import; the others are this package's inside."""
