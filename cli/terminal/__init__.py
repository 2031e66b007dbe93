"""Standard output and error: formats, colour, progress, and escaping of control characters."""

PUBLIC = ("output", "screen", "style")
"""Files that the rest of the project may import; the others are this package's inside."""
