"""One module a command: `configure` adds its arguments, `run` does it and returns the exit code."""
