"""The answers of the commands: documents for programs, tables for people."""

PUBLIC = ("difference", "monitoring", "periods", "plan", "savings", "simulation", "status", "top")
"""Files that the rest of the project may import; the others are this package's inside."""
