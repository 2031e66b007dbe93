"""One module per command: `configure` adds its arguments, `run` executes it and returns the exit code."""
