"""Standard output and error: formats, colour, progress, text that no terminal obeys."""
