"""Standard output and error: formats, colour, progress, and escaping of control characters."""
