"""One module per command: `configure` adds its arguments, `run` executes it and returns the exit code."""

PUBLIC = ("plan",)
"""Files that the rest of the project may import; the others are this package's inside."""
